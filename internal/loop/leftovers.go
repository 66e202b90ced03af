package loop

import "context"

// leftovers returns what the run leaves behind, fit to be stored.
func (r *runner) leftovers(ctx context.Context) string {
	if r.Leftovers == nil {
		return ""
	}
	return validText(r.Leftovers(ctx))
}
