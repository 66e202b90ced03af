package assembly_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestAdminsFindSessionsOfAllTenants by their ids, and learn nothing else of them.
func TestAdminsFindSessionsOfAllTenants(t *testing.T) {
	t.Parallel()
	in := inhabit(t)
	there, gone, never := in.acme.settle("a").session, in.acme.settle("b").session, uuid.Must(uuid.NewV7()).String()
	if _, err := in.acme.DeleteSession(in.ctx(), &pb.DeleteSessionRequest{SessionId: gone}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		token string
		ids   []string
		found []string
		code  codes.Code
	}{
		"of the tenant":     {in.ownAdmin, []string{gone, there, never}, []string{there}, codes.OK},
		"of another tenant": {in.otherAdmin, []string{gone, there, never}, []string{there}, codes.OK},
		"none":              {in.otherAdmin, nil, nil, codes.OK},
		"as many as may be": {in.otherAdmin, append(slices.Repeat([]string{never}, 999), there), []string{there}, codes.OK},
		"too many":          {in.otherAdmin, slices.Repeat([]string{there}, 1001), nil, codes.InvalidArgument},
		"no id":             {in.otherAdmin, []string{there, strings.Repeat("x", 36)}, nil, codes.InvalidArgument},
		"by a client":       {in.own, []string{there}, nil, codes.PermissionDenied},
	} {
		c, _ := in.as(test.token)
		resp, err := c.FindSessions(c.ctx(), &pb.FindSessionsRequest{SessionIds: test.ids})
		if status.Code(err) != test.code || !slices.Equal(resp.GetSessionIds(), test.found) {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
}
