package loop

import (
	"context"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// leftovers returns what the run leaves behind, fit to be stored.
func (r *runner) leftovers(ctx context.Context) string {
	if r.Leftovers == nil {
		return ""
	}
	return excerpt.Valid(r.Leftovers(ctx))
}
