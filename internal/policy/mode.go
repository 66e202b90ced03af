package policy

import "fmt"

// Mode says what becomes of a call that no rule names.
type Mode uint8

// The modes.
const (
	ModeUnspecified Mode = iota // no opinion
	ModeDefault                 // reading is allowed, all else asks
	ModeAcceptEdits             // reading and editing is allowed, all else asks
	ModePlan                    // reading is allowed, all else denied
	ModeBypass                  // all is allowed
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

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	for _, m := range []Mode{ModeDefault, ModeAcceptEdits, ModePlan, ModeBypass} {
		if name == m.String() {
			return m, nil
		}
	}
	return ModeUnspecified, fmt.Errorf("%.100q is no permission mode: there are default, accept_edits, plan and bypass", name)
}

// MarshalText gives the name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the name; empty is no mode.
func (m *Mode) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*m = ModeUnspecified
		return nil
	}
	var err error
	*m, err = ParseMode(string(text))
	return err
}

// decide says what the mode makes of a call; having no opinion is to allow.
func (m Mode) decide(access Access) Decision {
	switch {
	case m == ModeUnspecified, m == ModeBypass, access == AccessRead, m == ModeAcceptEdits && access == AccessEdit:
		return Allow
	case m == ModePlan:
		return Deny
	}
	return Ask
}

// Decision is what becomes of a call. Greater is stricter.
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
	AccessOther   Access = iota // whatever it may be
	AccessRead                  // it only looks, or only asks others whose own authority decides
	AccessEdit                  // it changes files of the workspace
	AccessNetwork               // it tells a stranger what it asks for, and hears what they say
)
