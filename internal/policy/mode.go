package policy

import "fmt"

// Mode decides on calls that match no rule.
type Mode uint8

// The modes.
const (
	ModeUnspecified Mode = iota // no opinion
	ModeDefault                 // reading is allowed, everything else asks
	ModeAcceptEdits             // reading and editing are allowed, everything else asks
	ModePlan                    // reading is allowed, everything else is denied
	ModeBypass                  // everything is allowed
)

func (m Mode) String() string {
	switch m {
	case ModeDefault:
		return "default"
	case ModeAcceptEdits:
		return "accept_edits"
	case ModePlan:
		return "plan"
	case ModeBypass:
		return "bypass"
	}
	return ""
}

// ParseMode parses the name of a mode.
func ParseMode(name string) (Mode, error) {
	for _, m := range []Mode{ModeDefault, ModeAcceptEdits, ModePlan, ModeBypass} {
		if name == m.String() {
			return m, nil
		}
	}
	return ModeUnspecified, fmt.Errorf("%.100q is not a permission mode: expected default, accept_edits, plan or bypass", name)
}

// MarshalText returns the name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText parses the name; an empty name is no mode.
func (m *Mode) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*m = ModeUnspecified
		return nil
	}
	var err error
	*m, err = ParseMode(string(text))
	return err
}

// decide returns the mode's decision on a call. A mode without an opinion allows it.
func (m Mode) decide(access Access) Decision {
	switch {
	case m == ModeUnspecified, m == ModeBypass, access == AccessRead, m == ModeAcceptEdits && access == AccessEdit:
		return Allow
	case m == ModePlan:
		return Deny
	}
	return Ask
}

// Decision is the decision on a call. A greater one is stricter.
type Decision uint8

// The decisions.
const (
	Allow Decision = iota
	Ask
	Deny
)

func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// Access is what a tool does to the world.
type Access uint8

// The kinds of access.
const (
	AccessOther   Access = iota // anything
	AccessRead                  // it only reads, or delegates to others whose own authority decides
	AccessEdit                  // it changes files of the workspace
	AccessNetwork               // it sends requests to third parties and reads their answers
)
