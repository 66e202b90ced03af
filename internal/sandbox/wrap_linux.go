package sandbox

import "strconv"

const (
	hostname = "sandbox"
	// home is the home directory of a command with namespaces. It is deleted with the
	// namespaces.
	home = "/tmp/home"
)

// wrapArgs returns the bubblewrap arguments that give the command the same view as buildRoot.
func wrapArgs(wrap []string, network bool, trees []tree, limits Limits) []string {
	size := strconv.FormatUint(limits.Scratch, 10)
	args := append([]string{}, wrap...)
	args = append(args, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
	if !network {
		args = append(args, "--unshare-net")
	}
	args = append(args, "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", hostname)
	for _, path := range systemDirs {
		if target, link := systemLink(path); link {
			args = append(args, "--symlink", target, path)
		}
	}
	for _, t := range systemTrees() {
		args = append(args, "--ro-bind", t.At, t.At)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--perms", "1777", "--size", size, "--tmpfs", "/tmp", "--perms", "0700", "--dir", home)
	for _, t := range trees {
		bind := "--ro-bind"
		if t.Writable {
			bind = "--bind"
		}
		args = append(args, bind, t.At, t.At)
	}
	return append(args, "--remount-ro", "/", "--")
}
