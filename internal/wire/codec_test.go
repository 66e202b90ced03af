package wire

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestCodec: every message is what gRPC's own codec makes of it, and a step can be sent several
// times.
func TestCodec(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	short := &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: &pb.Delta{TaskId: "t", Text: "once upon a time"}}}
	long := &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: &pb.Delta{TaskId: "t", Text: string(bytes.Repeat([]byte("x"), 1<<20))}}}
	step := DeltaStep(short.GetDelta())
	for _, sent := range []struct {
		v    any
		want proto.Message
	}{
		{step, short},
		{step, short},
		{short, short},
		{long, long},
		{&grpc_health_v1.HealthCheckRequest{Service: "s"}, &grpc_health_v1.HealthCheckRequest{Service: "s"}},
	} {
		data, err := c.Marshal(sent.v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(data.Reader())
		want, failed := proto.Marshal(sent.want)
		if err != nil || failed != nil || !bytes.Equal(got, want) {
			t.Errorf("%T is encoded as %.100q, %v, not %.100q, %v", sent.v, got, err, want, failed)
		}
		for name, decode := range map[string]func(mem.BufferSlice, any) error{"orchestrator": c.Unmarshal, "worker": WorkerCodec{c}.Unmarshal} {
			back := sent.want.ProtoReflect().New().Interface()
			if err := decode(mem.BufferSlice{mem.SliceBuffer(got)}, back); err != nil || !proto.Equal(back, sent.want) {
				t.Errorf("%s decodes %T as %.100v, %v", name, sent.want, back, err)
			}
		}
		data.Free()
	}
	if _, err := c.Marshal("text"); err == nil {
		t.Error("what is no message is encoded")
	}
	if c.Name() != "proto" {
		t.Errorf("the codec is called %q", c.Name())
	}
}

// TestRequestsAreChecked: a text that is not UTF-8 is refused, because no other message that
// contains it could be decoded.
func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	data, err := c.Marshal(&pb.WorkRequest{Kind: &pb.WorkRequest_Progress{Progress: &pb.Progress{Activity: "\xff"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Unmarshal(data, new(pb.WorkRequest)); err == nil {
		t.Error("it was accepted")
	}
}
