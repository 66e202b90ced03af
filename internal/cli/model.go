package cli

import (
	"log/slog"

	"github.com/coppice-run/coppice/internal/model/provider"
)

// chooseModel chooses the model that agents of this process use.
func (a *app) chooseModel(f provider.Flags, log *slog.Logger) (provider.Choice, error) {
	choice, err := provider.Choose(f, a.Getenv, log)
	if err != nil {
		return provider.Choice{}, usagef("%w", err)
	}
	return choice, nil
}
