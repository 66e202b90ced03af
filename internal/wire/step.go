package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Step is a step of a watched session as it goes over the wire. It is encoded once,
// for however many are sent it, and does not change.
type Step struct {
	buffers mem.BufferSlice // one, or of several events
}

// The numbers of the fields of a WatchSessionResponse that hold an event, and those that
// follow on it. The tag of each is one byte.
const (
	stepEvent protowire.Number = 1
	stepMore  protowire.Number = 4
)

// moreTag begins an event that follows on another one.
var moreTag = mem.SliceBuffer(protowire.AppendTag(nil, stepMore, protowire.BytesType))

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
func newStep(data []byte) *Step { return &Step{mem.BufferSlice{mem.SliceBuffer(data)}} }

// JoinSteps is one step of the events of several, none of which is copied.
func JoinSteps(events []*Step) *Step {
	if len(events) == 1 {
		return events[0]
	}
	buffers := make(mem.BufferSlice, 0, 2*len(events)-1)
	buffers = append(buffers, events[0].buffers...)
	for _, e := range events[1:] {
		buffers = append(buffers, moreTag, mem.SliceBuffer(e.buffers[0].ReadOnlyData()[len(moreTag):]))
	}
	return &Step{buffers}
}

// Len is how many bytes its encoding has.
func (s *Step) Len() int { return s.buffers.Len() }

// Bytes is a copy of the encoding.
func (s *Step) Bytes() []byte {
	all := make([]byte, 0, s.Len())
	for _, b := range s.buffers {
		all = append(all, b.ReadOnlyData()...)
	}
	return all
}

// Buffers is the encoding as gRPC takes it. It need not be freed, and may be.
func (s *Step) Buffers() mem.BufferSlice { return s.buffers }
