package sandbox

import "os"

// systemDirs are the directories of the machine that commands see. The worker's files, homes,
// mounted secrets and sockets of services are elsewhere: in /etc under other names, in /home,
// /root, /run, /srv and /var.
var systemDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
	"/etc/alternatives", "/etc/bash.bashrc", "/etc/ca-certificates", "/etc/ca-certificates.conf",
	"/etc/crypto-policies", "/etc/debian_version", "/etc/fonts", "/etc/gai.conf", "/etc/group",
	"/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/inputrc", "/etc/ld.so.cache",
	"/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/locale.alias", "/etc/locale.conf",
	"/etc/localtime", "/etc/magic", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release",
	"/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/profile", "/etc/profile.d",
	"/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/shells", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf", "/etc/terminfo", "/etc/timezone",
}

// devicePaths are the devices that a command may write to.
var devicePaths = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// systemPaths returns the existing paths of systemDirs.
func systemPaths() []string {
	var found []string
	for _, path := range systemDirs {
		if _, err := os.Stat(path); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// systemLink reports whether a system path is a link in the root directory, and its target.
// Such a link is recreated.
func systemLink(path string) (target string, ok bool) {
	if len(path) > 6 || path == "/usr" {
		return "", false
	}
	target, err := os.Readlink(path)
	return target, err == nil
}
