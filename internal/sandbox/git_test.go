package sandbox

import (
	"testing"
)

// TestGit is about what git finds of the machine and of the user, which is nothing.
func TestGit(t *testing.T) {
	t.Parallel()
	for kind, config := range map[string]Config{"confined": {}, "plain": {Mode: BestEffort, ways: []way{}}, "off": {Mode: Off}} {
		s := box(t, config)
		// Where namespaces hide it, or nothing does, git may look for the machine's configuration.
		unread := ""
		if s.way == wayNone && s.on(LayerLandlock) {
			unread = "1"
		}
		for name, tt := range map[string]struct{ script, want string }{
			"a repository": {`git init -q && git status --short && echo fine`, "fine\n"},
			"a commit": {
				`git init -q && git commit -q --allow-empty -m x && git log --format='%ae %ce' -1`, "coppice@localhost coppice@localhost\n",
			},
			"a commit by who is configured": {
				`git init -q && git config user.email a@b && git commit -q --allow-empty -m x && git log --format='%ae %ce' -1`, "a@b a@b\n",
			},
			"the machine's": {`echo "$GIT_CONFIG_NOSYSTEM"`, unread + "\n"},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				out, err := output(t, s, Command{Argv: []string{"bash", "-c", tt.script}, Dir: t.TempDir()}, "")
				if err != nil || out != tt.want {
					t.Errorf("%v, %q, not %q", err, out, tt.want)
				}
			})
		}
	}
}
