package sandbox

import (
	"fmt"
	"strings"
)

// Mode says how much confinement has to be there.
type Mode string

// The modes.
const (
	// Required makes New fail if a layer is missing.
	Required Mode = "required"
	// BestEffort uses the layers that there are.
	BestEffort Mode = "best-effort"
	// Off uses none: a command has its own process group and the environment that
	// it is given, and nothing outlives it.
	Off Mode = "off"
)

// ParseMode reads a mode; empty stays empty.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case Required, BestEffort, Off, "":
		return m, nil
	}
	return "", fmt.Errorf("the sandbox can be %s, %s or %s, not %q", Required, BestEffort, Off, text)
}

// DefaultMode is [Required] where a command that breaks out could do most: as root
// and in Kubernetes. Elsewhere it is [BestEffort].
func DefaultMode(uid int, getenv func(string) string) Mode {
	if uid == 0 || getenv("KUBERNETES_SERVICE_HOST") != "" {
		return Required
	}
	return BestEffort
}

// Layer is one of the things that confine a command.
type Layer struct {
	Name   string
	On     bool
	Detail string // in which way it is on, or why it is missing
}

// The names of the layers.
const (
	// LayerNamespaces is a view of the machine of its own: files, processes, IPC,
	// host name, and network unless it is allowed.
	LayerNamespaces = "namespaces"
	// LayerLandlock holds files, TCP, signals and abstract sockets once more.
	LayerLandlock = "landlock"
	// LayerSeccomp refuses calls of the kernel that no command needs.
	LayerSeccomp = "seccomp"
	// LayerLimits bounds memory, processes, files and time.
	LayerLimits = "limits"
)

func (l Layer) String() string {
	if l.Detail == "" {
		return l.Name
	}
	return l.Name + " (" + l.Detail + ")"
}

func missingError(missing []Layer) error {
	said := make([]string, len(missing))
	for i, l := range missing {
		said[i] = l.String()
	}
	return fmt.Errorf("the sandbox for commands is required, and of its layers these are missing: %s; "+
		"allow them on this machine (docs/security.md says how; where only root may make user namespaces, bubblewrap may help other users), "+
		"or accept that commands are confined less: --sandbox=%s or COPPICE_SANDBOX=%s",
		strings.Join(said, "; "), BestEffort, BestEffort)
}
