package cli

import (
	"fmt"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/scripted"
)

// chooseModel chooses the model that agents of this process use, and says in a
// few words which and why.
func chooseModel(scenario string) (m model.Model, which string, err error) {
	if scenario == "" {
		return scripted.New(scripted.Survey()), "no provider key set: playing the built-in demo scenario", nil
	}
	s, err := scripted.Load(scenario)
	if err != nil {
		return nil, "", usagef("reading the scenario: %w", err)
	}
	return scripted.New(s), "playing the scenario " + fmt.Sprintf("%q", scenario), nil
}
