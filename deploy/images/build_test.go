//go:build images

package images_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if name == "buildah" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET} // nothing can be reached from there
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, &said)
	}
	return string(out)
}

// TestBinariesAreReproducible builds from two copies of the checkout, and holds the
// binaries against each other and against what an image from scratch can run.
func TestBinariesAreReproducible(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "a", "checkout", "elsewhere")
	for _, dir := range []string{"cmd", "internal", "proto", "docs", "deploy/images"} {
		if err := os.CopyFS(filepath.Join(copied, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "documents.go", "README.md"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := t.TempDir(), t.TempDir()
	run(t, root, "sh", "deploy/images/context.sh", first, runtime.GOARCH)
	run(t, copied, "sh", "deploy/images/context.sh", second, runtime.GOARCH)
	for _, name := range []string{"orchestrator", "worker", "coppice"} {
		path := filepath.Join(first, runtime.GOARCH, name)
		one, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(second, runtime.GOARCH, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("two builds of %s are not the same", name)
		}
		file, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) != 0 || file.Section(".interp") != nil {
			t.Errorf("%s is not static: it needs %v, %v", name, libraries, err)
		}
		file.Close()
		t.Logf("%s: %d bytes, sha256 %x", name, len(one), sha256.Sum256(one))
	}
}

// TestScratchImagesAreBuiltOffline builds the images from scratch with buildah, with
// no network, and looks into them.
func TestScratchImagesAreBuiltOffline(t *testing.T) {
	context, storage := t.TempDir(), t.TempDir()
	run(t, "../..", "sh", "deploy/images/context.sh", context, runtime.GOARCH)
	global := []string{"--storage-driver", "vfs", "--root", filepath.Join(storage, "root"), "--runroot", filepath.Join(storage, "run")}
	for _, target := range []string{"orchestrator", "worker", "coppice"} {
		tag := "coppice-" + target + ":test"
		run(t, ".", "buildah", append(slices.Clone(global), "bud", "--isolation", "chroot", "--pull-never",
			"--build-arg", "TARGETARCH="+runtime.GOARCH, "--target", target, "--file", "Containerfile", "--tag", tag, context)...)
		var image struct {
			OCIv1 struct {
				Config struct {
					User, WorkingDir string
					Entrypoint       []string
				}
			}
		}
		if err := json.Unmarshal([]byte(run(t, ".", "buildah", append(slices.Clone(global), "inspect", "--type", "image", tag)...)), &image); err != nil {
			t.Fatal(err)
		}
		config := image.OCIv1.Config
		if config.User != "65532:65532" || config.WorkingDir != "/workspace" || !slices.Equal(config.Entrypoint, []string{"/usr/bin/" + target}) {
			t.Errorf("%s: %+v", target, config)
		}
		container := strings.TrimSpace(run(t, ".", "buildah", append(slices.Clone(global), "from", "--pull-never", tag)...))
		mounted := strings.TrimSpace(run(t, ".", "buildah", append(slices.Clone(global), "mount", container)...))
		holds(t, mounted, target)
		// It starts in there, as its user, and knows itself.
		said := run(t, ".", "buildah", append(slices.Clone(global), "run", "--isolation", "chroot", container, "--", "/usr/bin/"+target, "--help")...)
		if !strings.Contains(said, "Usage: "+target) {
			t.Errorf("%s says %.200s", target, said)
		}
	}
}

// holds checks that an image has what a program expects, and nothing else.
func holds(t *testing.T, mounted, program string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(mounted, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, mounted))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/etc/group", "/etc/passwd", "/etc/ssl/certs/ca-certificates.crt", "/usr/bin/" + program}
	slices.Sort(files)
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("%s holds %v, want %v", program, files, want)
	}
	for _, dir := range []string{"tmp", "workspace"} {
		if info, err := os.Stat(filepath.Join(mounted, dir)); err != nil || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSticky == 0 {
			t.Errorf("%s of %s: %v, %v", dir, program, info, err)
		}
	}
}
