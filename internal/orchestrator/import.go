package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// ImportSession opens a session whose root begins with the conversation that lines
// hold. It gives the session, its root, and what was read.
func (s *Service) ImportSession(ctx context.Context, tenant string, n NewSession, lines []byte, req Request) (*tree.Session, *tree.Task, *transcript.History, error) {
	history, err := transcript.Decode(lines)
	if err != nil {
		return nil, nil, nil, err
	}
	transcript.CleanAll(history.Messages, s.Secrets)
	n.history = history.Messages
	session, root, err := s.CreateSession(ctx, tenant, n, req)
	return session, root, history, err
}
