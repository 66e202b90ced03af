package cli

import (
	"github.com/coppice-run/coppice/internal/model/provider"
)

// chooseModel chooses the model for agents of this process.
func (a *app) chooseModel(f provider.Flags, m *instruments) (provider.Choice, error) {
	tries, err := m.RetryMetrics()
	if err != nil {
		return provider.Choice{}, err
	}
	choice, err := provider.Choose(f, a.Getenv, m.Logger, tries)
	if err != nil {
		return provider.Choice{}, usagef("%w", err)
	}
	return choice, nil
}
