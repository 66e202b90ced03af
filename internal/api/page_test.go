package api

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestPagesAreSuchAsClientsTake: a page of large rows ends early, whatever its page size, so that a
// client with the default limit of 4 MiB accepts it. All pages together have all rows, once.
func TestPagesAreSuchAsClientsTake(t *testing.T) {
	t.Parallel()
	sessions := &sessionServer{svc: setup(t)}
	const many = 140
	metadata := map[string]string{}
	for i := range maxMetadata {
		metadata[fmt.Sprintf("pair%02d", i)] = strings.Repeat("x", 1000)
	}
	var calls errgroup.Group
	for range many {
		calls.Go(func() error {
			_, err := sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Metadata: metadata})
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	seen := map[string]bool{}
	for token := ""; ; {
		page, err := sessions.ListSessions(t.Context(), &pb.ListSessionsRequest{PageSize: sessionPageMax, PageToken: token, IncludeChildren: true})
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(page); size > 4<<20 {
			t.Errorf("a page of %d sessions has %d bytes", len(page.GetSessions()), size)
		}
		for _, s := range page.GetSessions() {
			seen[s.GetId()] = true
		}
		sizes = append(sizes, len(page.GetSessions()))
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(sizes) != 2 || sizes[0]+sizes[1] != many || len(seen) != many {
		t.Errorf("pages of %v sessions, of which %d are different", sizes, len(seen))
	}
}
