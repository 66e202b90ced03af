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

// parseTaskID reads the id of a task; empty text is the zero id where that is allowed.
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

// parseTaskRef reads the ids that most requests about a task carry.
func parseTaskRef(session, task string, optional bool) (tree.SessionID, tree.TaskID, error) {
	s, err := parseSessionID(session)
	if err != nil {
		return s, tree.TaskID{}, err
	}
	t, err := parseTaskID("task_id", task, optional)
	return s, t, err
}

// parseDuration reads a duration; none is zero.
func parseDuration(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, tree.ErrBadInput.With("%s: %v", field, err)
	}
	return d.AsDuration(), nil
}

// parseIdempotency reads the idempotency key of a request and hashes what is asked.
func parseIdempotency(key string, req proto.Message) (orchestrator.Idempotency, error) {
	if len(key) > maxKeyBytes {
		return orchestrator.Idempotency{}, tree.ErrBadInput.With("idempotency_key has %d bytes, at most %d", len(key), maxKeyBytes)
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

// withoutWait is what a request asks for. How long its client waits for it is no part of that: who
// repeats a call has less time left.
func withoutWait(req proto.Message) proto.Message {
	wait := req.ProtoReflect().Descriptor().Fields().ByName("wait")
	if wait == nil {
		return req
	}
	req = proto.Clone(req)
	req.ProtoReflect().Clear(wait)
	return req
}
