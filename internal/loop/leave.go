package loop

import "context"

// leaves is what the run leaves behind, fit to be stored.
func (r *runner) leaves(ctx context.Context) string {
	if r.Leaves == nil {
		return ""
	}
	return valid(r.Leaves(ctx))
}
