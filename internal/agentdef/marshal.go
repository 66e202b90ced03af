package agentdef

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// versionBytes is how many bytes of the digest form a version.
const versionBytes = 8

// Marshal returns the canonical text of the definition. Parsing it with the same source gives
// an equal definition. A task stores this text.
func (d *Definition) Marshal() []byte {
	return []byte(fence + "\n" + d.frontMatterText() + fence + "\n\n" + d.Prompt + "\n")
}

// frontMatterText returns the front matter of the canonical text.
func (d *Definition) frontMatterText() string {
	var b strings.Builder
	putText(&b, "name", d.Name)
	putText(&b, "description", d.Description)
	putText(&b, "mode", d.Mode.String())
	putText(&b, "model", d.Model)
	putList(&b, "tools", d.Tools)
	putList(&b, "disallowed_tools", d.DisallowedTools)
	putList(&b, "deferred_tools", d.DeferredTools)
	putList(&b, "skills", d.Skills)
	putList(&b, "spawns", d.Spawns)
	if d.MaxIterations > 0 {
		fmt.Fprintf(&b, "max_iterations: %d\n", d.MaxIterations)
	}
	if d.Timeout > 0 {
		putText(&b, "timeout", d.Timeout.String())
	}
	if d.FailOnInterrupt {
		putText(&b, "on_interrupt", interruptFail)
	}
	if d.Background {
		b.WriteString("background: true\n")
	}
	if d.Worktree {
		putText(&b, "isolation", isolationWorktree)
	}
	putText(&b, "reminder", d.Reminder)
	if d.ForkContext {
		b.WriteString("fork_context: true\n")
	}
	if d.CompactAt > 0 {
		fmt.Fprintf(&b, "compact_at: %d\n", d.CompactAt)
	}
	putHooks(&b, d.Hooks)
	putText(&b, "on_complete", d.OnComplete)
	putPermissions(&b, d.Permissions)
	return b.String()
}

func (d *Definition) digest() string {
	sum := sha256.Sum256(d.Marshal())
	return hex.EncodeToString(sum[:versionBytes])
}

// IsVersion reports whether a text can be the version of a definition.
func IsVersion(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == versionBytes
}

// putText writes a quoted string, because a bare 12, true or null would not be a string in
// YAML. All escapes of Go are valid in YAML.
func putText(b *strings.Builder, key, value string) {
	if value != "" {
		fmt.Fprintf(b, "%s: %s\n", key, strconv.Quote(value))
	}
}

func putList(b *strings.Builder, key string, values []string) {
	if len(values) == 0 {
		return
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	fmt.Fprintf(b, "%s: [%s]\n", key, strings.Join(quoted, ", "))
}
