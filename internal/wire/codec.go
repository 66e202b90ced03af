package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// generated is a message that encodes and decodes itself, with code that is generated from its
// definition. It does not check that texts are valid UTF-8, as gRPC's own codec does.
type generated interface {
	MarshalVT() ([]byte, error)
	MarshalToSizedBufferVT(to []byte) (int, error)
	SizeVT() int
	UnmarshalVT(data []byte) error
}

// Codec is the codec of an orchestrator. It encodes our messages with generated code, and passes on
// a [Step], which is encoded already. All requests are decoded, and their texts checked, by gRPC's
// own codec.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns a codec.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Marshal encodes a message.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *Step:
		return m.Buffers(), nil
	case generated:
		return marshal(m)
	}
	return c.CodecV2.Marshal(v)
}

// marshal encodes a message. Large ones get a buffer of gRPC's pool, which gRPC returns.
func marshal(m generated) (mem.BufferSlice, error) {
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		data := make([]byte, size)
		_, err := m.MarshalToSizedBufferVT(data)
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	pool := mem.DefaultBufferPool()
	data := pool.Get(size)
	if _, err := m.MarshalToSizedBufferVT((*data)[:size]); err != nil {
		pool.Put(data)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(data, pool)}, nil
}

// WorkerCodec is the codec of a worker's streams. It also decodes with generated code: an
// orchestrator has checked all texts that it sends.
type WorkerCodec struct{ Codec }

// Unmarshal decodes into an empty message.
func (c WorkerCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(generated)
	if !ok {
		return c.Codec.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return m.UnmarshalVT(whole.ReadOnlyData())
}
