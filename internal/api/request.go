package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

var errPanicked = errors.New("a handler panicked")

// maxKeyBytes bounds an idempotency key.
const maxKeyBytes = 200

func parseSessionID(s string) (tree.SessionID, error) {
	if s == "" {
		return tree.SessionID{}, tree.ErrBadInput.With("session_id is missing")
	}
	id, err := tree.ParseID[tree.Session](s)
	if err != nil {
		return id, tree.ErrBadInput.With("session_id: %v", err)
	}
	return id, nil
}

// parseTaskID parses the id of a task. Empty text is the zero id if it is optional.
func parseTaskID(field, s string, optional bool) (tree.TaskID, error) {
	switch {
	case s == "" && optional:
		return tree.TaskID{}, nil
	case s == "":
		return tree.TaskID{}, tree.ErrBadInput.With("%s is missing", field)
	}
	id, err := tree.ParseID[tree.Task](s)
	if err != nil {
		return id, tree.ErrBadInput.With("%s: %v", field, err)
	}
	return id, nil
}

// parseTaskRef parses the ids of a session and a task.
func parseTaskRef(session, task string, optional bool) (tree.SessionID, tree.TaskID, error) {
	s, err := parseSessionID(session)
	if err != nil {
		return s, tree.TaskID{}, err
	}
	t, err := parseTaskID("task_id", task, optional)
	return s, t, err
}

// parseDuration reads a duration; nil is zero.
func parseDuration(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, tree.ErrBadInput.With("%s: %v", field, err)
	}
	return d.AsDuration(), nil
}

// parseIdempotency returns the idempotency key of a request and the hash of the request.
func parseIdempotency(key string, req proto.Message) (orchestrator.Idempotency, error) {
	if len(key) > maxKeyBytes {
		return orchestrator.Idempotency{}, tree.ErrBadInput.With("idempotency_key has %d bytes, the limit is %d", len(key), maxKeyBytes)
	}
	if key == "" {
		return orchestrator.Idempotency{}, nil
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(withoutWait(req))
	if err != nil {
		return orchestrator.Idempotency{}, fmt.Errorf("hashing a request: %w", err)
	}
	named := append([]byte(req.ProtoReflect().Descriptor().FullName()+"\x00"), data...)
	return orchestrator.Idempotency{Key: key, Hash: sha256.Sum256(named)}, nil
}

// withoutWait returns a request without its field wait, if it has one. A client that repeats a call
// has less time left to wait, and still asks for the same.
func withoutWait(req proto.Message) proto.Message {
	wait := req.ProtoReflect().Descriptor().Fields().ByName("wait")
	if wait == nil {
		return req
	}
	req = proto.Clone(req)
	req.ProtoReflect().Clear(wait)
	return req
}
