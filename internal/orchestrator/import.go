package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// ImportSession opens a session whose root begins with the conversation that lines
// hold. It gives what was read beside the session.
func (s *Service) ImportSession(ctx context.Context, tenant string, n NewSession, lines []byte, req Request) (tree.SessionID, *transcript.History, error) {
	history, err := transcript.Read(lines)
	if err != nil {
		return tree.SessionID{}, nil, err
	}
	transcript.CleanAll(history.Messages, s.Secrets)
	n.history = history.Messages
	id, err := s.CreateSession(ctx, tenant, n, req)
	return id, history, err
}
