package sandbox

import (
	"fmt"
	"strings"
)

// Mode says how much confinement is required.
type Mode string

// The modes.
const (
	// Required makes New fail if a layer is unavailable.
	Required Mode = "required"
	// BestEffort uses the available layers.
	BestEffort Mode = "best-effort"
	// Off uses no layer. A command has its own process group and only the given environment,
	// and all its processes are killed at its end.
	Off Mode = "off"
)

// ParseMode parses a mode. Empty stays empty.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case Required, BestEffort, Off, "":
		return m, nil
	}
	return "", fmt.Errorf("the sandbox can be %s, %s or %s, not %q", Required, BestEffort, Off, text)
}

// DefaultMode returns [Required] for root and in Kubernetes, where an escape could do the most
// damage. Elsewhere it returns [BestEffort].
func DefaultMode(uid int, getenv func(string) string) Mode {
	if uid == 0 || getenv("KUBERNETES_SERVICE_HOST") != "" {
		return Required
	}
	return BestEffort
}

// Layer is one of the mechanisms that confine a command.
type Layer struct {
	Name   string
	On     bool
	Detail string // how it is implemented, or why it is unavailable
}

// The names of the layers.
const (
	// LayerNamespaces gives the command its own view of the machine: files, processes, IPC,
	// host name and, unless network access is allowed, network.
	LayerNamespaces = "namespaces"
	// LayerLandlock restricts files, TCP, signals and abstract sockets, as a second barrier.
	LayerLandlock = "landlock"
	// LayerSeccomp refuses system calls that no command needs.
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
