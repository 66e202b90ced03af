package api

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// TestTheCodecPassesStepsOn: a step can be sent several times; other messages are encoded.
func TestTheCodecPassesStepsOn(t *testing.T) {
	t.Parallel()
	c := newCodec()
	d := &pb.Delta{TaskId: "t", Text: "once upon a time"}
	step, resp := wire.DeltaStep(d), &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: d}}
	want, err := proto.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{step, step, resp} {
		data, err := c.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(data.Reader())
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T is %q, %v", v, got, err)
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
