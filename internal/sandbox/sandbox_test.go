package sandbox

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDefaultMode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		uid        int
		kubernetes string
		want       Mode
	}{{0, "", Required}, {0, "10.0.0.1", Required}, {1000, "10.0.0.1", Required}, {1000, "", BestEffort}} {
		if got := DefaultMode(tt.uid, func(string) string { return tt.kubernetes }); got != tt.want {
			t.Errorf("user %d with KUBERNETES_SERVICE_HOST=%q: %s, not %s", tt.uid, tt.kubernetes, got, tt.want)
		}
	}
}

// TestMissingLayers takes away the namespaces, which a machine may refuse.
func TestMissingLayers(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Mode: Required, ways: []way{}})
	if err == nil || !strings.Contains(err.Error(), LayerNamespaces) || !strings.Contains(err.Error(), "--sandbox=best-effort") {
		t.Errorf("without namespaces a required sandbox gives %v", err)
	}
	s, err := New(Config{Mode: BestEffort, ways: []way{}})
	if err != nil {
		t.Fatal(err)
	}
	if missing := s.Missing(); len(missing) != 1 || missing[0].Name != LayerNamespaces {
		t.Errorf("missing are %v", missing)
	}
	if s, err = New(Config{Mode: Off}); err != nil || len(s.Layers()) != 0 {
		t.Errorf("off has the layers %v, %v", s.Layers(), err)
	}
	if _, err := New(Config{Mode: "sometimes"}); err == nil {
		t.Error("there is a mode sometimes")
	}
}

func TestTrusting(t *testing.T) {
	t.Parallel()
	const safe = "safe.directory"
	for name, tt := range map[string]struct{ environ, want []string }{
		"": {[]string{"A=1"}, []string{
			"A=1", "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=" + safe, "GIT_CONFIG_VALUE_0=/w", "GIT_CONFIG_KEY_1=" + safe, "GIT_CONFIG_VALUE_1=/w/*",
		}},
		"settings": {[]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=a"}, []string{
			"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=a",
			"GIT_CONFIG_KEY_1=" + safe, "GIT_CONFIG_VALUE_1=/w", "GIT_CONFIG_KEY_2=" + safe, "GIT_CONFIG_VALUE_2=/w/*",
		}},
		"settings that git refuses": {[]string{"GIT_CONFIG_COUNT=x"}, []string{"GIT_CONFIG_COUNT=x"}},
	} {
		if got := withSafeDirectory("/w", tt.environ); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	worker := []string{"PATH=/bin", "ANTHROPIC_API_KEY=k", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=k", "TZ=UTC", "MINE=1", "HOME=/root", "LD_PRELOAD=x"}
	if got, want := Environ(worker, []string{"MINE"}), []string{"PATH=/bin", "LC_ALL=C", "TZ=UTC", "MINE=1"}; !slices.Equal(got, want) {
		t.Errorf("commands get %q, not %q", got, want)
	}
}

// box is a sandbox as a worker of this user has it.
func box(t *testing.T, c Config) *Sandbox {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Names of files, values of variables and arguments may have any bytes.
func TestCommandsWithoutUTF8(t *testing.T) {
	t.Parallel()
	const word = "caf\xe9\xff é"
	dir := filepath.Join(t.TempDir(), word)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for kind, config := range map[string]Config{"confined": {}, "plain": {Mode: BestEffort, ways: []way{}}, "off": {Mode: Off}} {
		out, err := output(t, box(t, config), Command{
			Argv: []string{"bash", "-c", `pwd; printf %s "$OWN|$1" | tee f`, "bash", word}, Dir: dir, Env: []string{"OWN=" + word},
		}, "")
		if err != nil || out != dir+"\n"+word+"|"+word {
			t.Errorf("%s: %q, %v", kind, out, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); string(got) != word+"|"+word {
			t.Errorf("%s: the file has %q, %v", kind, got, err)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	kinds := map[string]Config{"confined": {}, "plain": {Mode: BestEffort, ways: []way{}}, "off": {Mode: Off}}
	for kind, config := range kinds {
		config.Environ = []string{"PATH=" + defaultPath, "GIVEN=yes"}
		s := box(t, config)
		for _, tt := range []struct{ name, script, stdin, want string }{
			{"its output", `echo out; echo err >&2`, "", "out\nerr\n"},
			{"its output by name", `echo out >/dev/stdout; echo err >/dev/stderr; echo both | tee /dev/stderr`, "", "out\nerr\nboth\nboth\n"},
			{"its input", `cat`, "text", "text"},
			{"its directory", `pwd; test "$PWD" = "$(pwd)"`, "", "DIR\n"},
			{"its code", `exit 3`, "", "exit status 3"},
			{"a signal", `kill -9 $$`, "", "exit status 137"},
			{"its environment", `echo "$GIVEN $OWN"; test -d "$HOME" && touch "$HOME/f" && echo home`, "", "yes own\nhome\n"},
			{"its files", `mkdir -p a/b && echo x >a/b/f && mv a/b/f a/g && ln a/g h && ln -s h i && cat i && rm -r a`, "", "x\n"},
			{"processes of its own", `sleep 0.01 | cat & wait; echo $?`, "", "0\n"},
			{"a scratch file", `f=$(mktemp) && echo x >"$f" && cat "$f"`, "", "x\n"},
			{"devices", `echo x >/dev/null; head -c 3 /dev/zero | wc -c; cat <(echo y)`, "", "3\ny\n"},
			{"sockets of its own", `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; syswrite A, "z\n"; print scalar <B>'`, "", "z\n"},
			{"no other files", `ls /proc/self/fd | tr '\n' ' '`, "", "0 1 2 3 "},
		} {
			t.Run(kind+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				dir, err := filepath.EvalSymlinks(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				out, err := output(t, s, Command{Argv: []string{"bash", "-c", tt.script}, Dir: dir, Env: []string{"OWN=own"}}, tt.stdin)
				if err != nil {
					out += err.Error()
				}
				if want := strings.ReplaceAll(tt.want, "DIR", dir); out != want {
					t.Errorf("%q, not %q", out, want)
				}
			})
		}
	}
}

func output(t *testing.T, s *Sandbox, c Command, stdin string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	p, err := s.Start(t.Context(), c)
	if err != nil {
		return out.String(), err
	}
	err = p.Wait()
	return out.String(), err
}

func TestWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	s := box(t, Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		c    Command
		is   error
	}{
		{"nothing", Command{Dir: dir}, nil},
		{"an unknown program", Command{Argv: []string{"coppice-no-such-program"}, Dir: dir}, exec.ErrNotFound},
		{"an unknown path", Command{Argv: []string{"./x"}, Dir: dir}, exec.ErrNotFound},
		{"a file that is no program", Command{Argv: []string{"./file"}, Dir: dir}, nil},
		{"an unknown directory", Command{Argv: []string{"true"}, Dir: filepath.Join(dir, "x")}, os.ErrNotExist},
		{"a relative directory", Command{Argv: []string{"true"}, Dir: "."}, nil},
		{"the root", Command{Argv: []string{"true"}, Dir: "/"}, nil},
		{"an unknown place to write", Command{Argv: []string{"true"}, Dir: dir, Writable: []string{"/no/such"}}, os.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := output(t, s, tt.c, ""); err == nil || (tt.is != nil && !errors.Is(err, tt.is)) {
				t.Errorf("it gives %v", err)
			}
		})
	}
}

// TestModes: that programs can't be left that run as somebody keeps nobody from other
// modes, and not from what a directory with a group hands on.
func TestModes(t *testing.T) {
	t.Parallel()
	script := `install -m 755 /usr/bin/true program && cp program copy && chmod 640 copy && stat -c %a program copy
		mkdir inherits && chmod 775 inherits && mkdir -m 1777 open && cp -a inherits kept && stat -c %a inherits open kept
		git init -q --shared=group shared && git -C shared -c user.name=t -c user.email=t@localhost commit -q --allow-empty -m x && echo shared
		for mode in u+s g+s; do chmod $mode program || echo refused; done`
	s := box(t, Config{})
	type row struct {
		mode os.FileMode
		gid  int
		want string
	}
	group, isRoot := 1234, os.Getuid() == 0
	if !isRoot {
		group = os.Getgid()
	}
	rows := map[string]row{
		"with a group": {os.ModeSetgid | 0o755, group, "755\n640\n2775\n3777\n2775\nshared\nrefused\n"},
		"with none":    {0o755, group, "755\n640\n775\n1777\n775\nrefused\nrefused\n"},
	}
	if isRoot { // nobody else can give a directory to root's group
		rows["with root's"] = row{os.ModeSetgid | 0o755, 0, "755\n640\nrefused\nrefused\n"}
	}
	for name, tt := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := errors.Join(os.Chown(dir, -1, tt.gid), os.Chmod(dir, tt.mode)); err != nil {
				t.Fatal(err)
			}
			out, err := output(t, s, Command{Dir: dir, Argv: []string{"bash", "-c", "exec 2>/dev/null\n" + script}}, "")
			if err != nil || out != tt.want {
				t.Errorf("%v, %q, not %q", err, out, tt.want)
			}
		})
	}
}

// TestOwners lets commands of a worker run by root work in directories of others.
func TestOwners(t *testing.T) {
	t.Parallel()
	s := box(t, Config{})
	for _, uid := range []int{os.Getuid(), 1234, nobodyID} {
		if os.Getuid() != 0 && uid != os.Getuid() {
			continue
		}
		dir, more := t.TempDir(), t.TempDir()
		if err := errors.Join(os.Chown(dir, uid, uid), os.WriteFile(filepath.Join(dir, "there"), nil, 0o600), os.Chown(filepath.Join(dir, "there"), uid, uid)); err != nil {
			t.Fatal(err)
		}
		out, err := output(t, s, Command{
			Argv: []string{"bash", "-c", `echo x >new && echo y >>there && mkdir d && echo z >"$MORE/f" && stat -c %u . new there`},
			Dir:  dir, Writable: []string{more}, Env: []string{"MORE=" + more},
		}, "")
		if err != nil {
			t.Fatalf("in a directory of user %d: %v: %s", uid, err, out)
		}
		for path, want := range map[string]int{filepath.Join(dir, "new"): uid, filepath.Join(dir, "there"): uid, filepath.Join(more, "f"): os.Getuid()} {
			var is unix.Stat_t
			if err := unix.Lstat(path, &is); err != nil || int(is.Uid) != want {
				t.Errorf("%s belongs to %d, %v, not to %d", path, is.Uid, err, want)
			}
		}
	}
}
