package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Step is a step of a watched session as it goes over the wire. It is encoded once,
// for however many are sent it, and does not change.
type Step struct {
	data    []byte
	buffers mem.BufferSlice // of data alone
}

// stepEvent is the number of the field of a WatchSessionResponse that holds an event.
const stepEvent protowire.Number = 1

// EventStep is the step of an event, from the bytes that the store keeps of it.
func EventStep(stored []byte) *Step {
	data := make([]byte, 0, protowire.SizeTag(stepEvent)+protowire.SizeBytes(len(stored)))
	data = protowire.AppendTag(data, stepEvent, protowire.BytesType)
	return newStep(protowire.AppendBytes(data, stored))
}

// DeltaStep is the step of a piece of text, which has to be valid UTF-8.
func DeltaStep(d *pb.Delta) *Step {
	return newStep(encode(&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: d}}))
}

// newStep takes the bytes over.
func newStep(data []byte) *Step { return &Step{data, mem.BufferSlice{mem.SliceBuffer(data)}} }

// Bytes is the encoding, to be read only.
func (s *Step) Bytes() []byte { return s.data }

// Buffers is the encoding as gRPC takes it. It need not be freed, and may be.
func (s *Step) Buffers() mem.BufferSlice { return s.buffers }
