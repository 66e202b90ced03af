package api

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

func (s *sessionServer) ImportSession(stream pb.SessionService_ImportSessionServer) error {
	opening, lines, err := importFrom(stream)
	if err != nil {
		return err
	}
	if err := checkMetadata(opening.GetMetadata()); err != nil {
		return err
	}
	key, err := parseIdempotency(opening.GetIdempotencyKey(), opening)
	if err != nil {
		return err
	}
	if key.Key != "" {
		sum := sha256.Sum256(lines)
		key.Hash = sha256.Sum256(append(key.Hash[:], sum[:]...))
	}
	ctx := stream.Context()
	session, root, history, err := s.svc.ImportSession(ctx, tenant(ctx), orchestrator.SessionSpec{
		Agent: opening.GetAgent(), Title: opening.GetTitle(), Model: opening.GetModel(), Metadata: opening.GetMetadata(),
	}, lines, key)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&pb.ImportSessionResponse{
		Session: wire.Session(session, root), Messages: int32(len(history.Messages)), Notes: history.Notes,
	})
}

// importFrom reads the stream of an import: its opening, then its lines.
func importFrom(stream pb.SessionService_ImportSessionServer) (*pb.ImportOpening, []byte, error) {
	var opening *pb.ImportOpening
	var lines bytes.Buffer
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		switch k := piece.GetPiece().(type) {
		case *pb.ImportSessionRequest_Opening:
			if opening != nil {
				return nil, nil, tree.ErrBadInput.With("the stream has more than one opening")
			}
			opening = k.Opening
		case *pb.ImportSessionRequest_Lines:
			if opening == nil {
				return nil, nil, tree.ErrBadInput.With("the opening must be sent before lines")
			}
			if lines.Len()+len(k.Lines) > transcript.MaxEncodedBytes {
				return nil, nil, tree.ErrTooLarge.With("the transcript has more than %d bytes", transcript.MaxEncodedBytes)
			}
			lines.Write(k.Lines)
		}
	}
	if opening == nil {
		return nil, nil, tree.ErrBadInput.With("the stream has no opening")
	}
	return opening, lines.Bytes(), nil
}
