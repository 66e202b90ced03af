package api

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/coppice-run/coppice/internal/wire"
)

// codec is gRPC's own codec, except that steps, which are encoded already, are passed on as they
// are.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if step, ok := v.(*wire.Step); ok {
		return step.Buffers(), nil
	}
	return c.CodecV2.Marshal(v)
}
