package api

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// FuzzBounds: the bounds of a run are accepted to the microsecond, or refused. A bound that was
// given never becomes no bound.
func FuzzBounds(f *testing.F) {
	f.Add(true, int64(1), int32(0), true, int64(1_900_000_000), int32(999_999_999))
	f.Add(true, int64(0), int32(999_999), false, int64(0), int32(0))
	f.Add(true, int64(315_576_000_000), int32(999_999_999), true, int64(253_402_300_799), int32(0))
	f.Add(true, int64(1), int32(-1), true, int64(-62_135_596_800), int32(0))
	f.Fuzz(func(t *testing.T, timed bool, seconds int64, nanos int32, dated bool, at int64, atNanos int32) {
		req := &pb.SpawnTaskRequest{}
		if timed {
			req.Timeout = &durationpb.Duration{Seconds: seconds, Nanos: nanos}
		}
		if dated {
			req.Deadline = &timestamppb.Timestamp{Seconds: at, Nanos: atNanos}
		}
		timeout, deadline, err := parseTimeBounds(req)
		if err != nil {
			if tree.CodeOf(err) != tree.CodeInvalid {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if timed != (timeout >= time.Millisecond) || timeout%time.Microsecond != 0 {
			t.Errorf("a timeout of %v is %s", req.GetTimeout(), timeout)
		}
		if dated == deadline.IsZero() || dated && !time.UnixMicro(deadline.UnixMicro()).Equal(deadline) {
			t.Errorf("a deadline of %v is %s", req.GetDeadline(), deadline)
		}
	})
}

// FuzzIDs: an id is parsed to what it says, or refused with a short message.
func FuzzIDs(f *testing.F) {
	f.Add(tree.SessionID{1}.String(), tree.TaskID{2}.String(), true)
	f.Add("", "", true)
	f.Add(tree.SessionID{}.String(), "x", false)
	f.Fuzz(func(t *testing.T, session, task string, optional bool) {
		s, id, err := parseTaskRef(session, task, optional)
		switch {
		case err != nil:
			if tree.CodeOf(err) != tree.CodeInvalid || len(err.Error()) > 1000 {
				t.Errorf("refused with %v", err)
			}
		case s.IsZero() || id.IsZero() != (task == ""):
			t.Errorf("%q and %q are %s and %s", session, task, s, id)
		case task == "" && !optional:
			t.Error("nothing names a task")
		}
	})
}
