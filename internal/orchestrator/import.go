package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// ImportSession opens a session whose root begins with the conversation in lines. It returns the
// session, its root, and what was read.
func (s *Service) ImportSession(ctx context.Context, tenant string, spec SessionSpec, lines []byte, idem Idempotency) (*tree.Session, *tree.Task, *transcript.History, error) {
	history, err := transcript.Read(lines)
	if err != nil {
		return nil, nil, nil, err
	}
	transcript.CleanAll(history.Messages, s.Secrets)
	spec.history = history.Messages
	session, root, err := s.CreateSession(ctx, tenant, spec, idem)
	return session, root, history, err
}
