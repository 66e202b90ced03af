package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Step is a step of a watched session in its encoded form. It is encoded once, however many
// watchers it is sent to, and is immutable.
type Step struct {
	buffers mem.BufferSlice // one buffer, or those of several events
}

// The fields of a WatchSessionResponse that hold the first event and the following ones. The tag of
// each is one byte.
const (
	stepEvent protowire.Number = 1
	stepMore  protowire.Number = 4
)

// moreTag precedes each event after the first.
var moreTag = mem.SliceBuffer(protowire.AppendTag(nil, stepMore, protowire.BytesType))

// EventStep returns the step of a stored event.
func EventStep(stored []byte) *Step {
	data := make([]byte, 0, protowire.SizeTag(stepEvent)+protowire.SizeBytes(len(stored)))
	data = protowire.AppendTag(data, stepEvent, protowire.BytesType)
	return newStep(protowire.AppendBytes(data, stored))
}

// DeltaStep returns the step of a piece of text, which must be valid UTF-8.
func DeltaStep(d *pb.Delta) *Step {
	return newStep(encode(&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: d}}))
}

// newStep takes ownership of data.
func newStep(data []byte) *Step { return &Step{mem.BufferSlice{mem.SliceBuffer(data)}} }

// JoinSteps returns one step with the events of several steps. It copies none of them.
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

// Len returns the size of the encoding.
func (s *Step) Len() int { return s.buffers.Len() }

// Bytes returns a copy of the encoding.
func (s *Step) Bytes() []byte {
	all := make([]byte, 0, s.Len())
	for _, b := range s.buffers {
		all = append(all, b.ReadOnlyData()...)
	}
	return all
}

// Buffers returns the encoding for gRPC. It need not be freed, and may be.
func (s *Step) Buffers() mem.BufferSlice { return s.buffers }
