package sandbox

import (
	"maps"
	"slices"
)

func networkEscapes() []escape {
	rows := all(
		named("reach the network", map[string]string{
			"by TCP":                     `echo hi >"/dev/tcp/127.0.0.1/$TCP"`,
			"by TCP and IPv6":            `echo hi >"/dev/tcp/::1/$TCP6"`,
			"by UDP":                     `echo hi >"/dev/udp/127.0.0.1/$UDP"`,
			"by name":                    `echo hi >"/dev/tcp/localhost/$TCP"`,
			"by perl":                    `perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) or die; connect(S, sockaddr_in($ENV{TCP}, inet_aton("127.0.0.1"))) or die'`,
			"by datagrams of perl":       `perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0) or die; send(S, "hi", 0, sockaddr_in($ENV{UDP}, inet_aton("127.0.0.1"))) or die'`,
			"by another program's TCP":   `$PROBE dial tcp 127.0.0.1:$TCP`,
			"by several paths":           `$PROBE dial tcp 127.0.0.1:$TCP multipath`,
			"by another program's UDP":   `$PROBE dial udp 127.0.0.1:$UDP`,
			"by a mapped address":        `$PROBE dial tcp "[::ffff:127.0.0.1]:$TCP"`,
			"by the unspecified address": `$PROBE dial tcp 0.0.0.0:$TCP`,
			"by listening":               `$PROBE listen tcp 127.0.0.1:0`,
			"by listening to all":        `$PROBE listen tcp :0`,
			"in the background":          `(setsid bash -c 'echo hi >"/dev/tcp/127.0.0.1/$TCP"' &) ; sleep 0.3`,
		}),
		named("have a socket", map[string]string{
			"of IPv4":              `$PROBE socket 2 1 0`,
			"of IPv6":              `$PROBE socket 10 1 0`,
			"of several paths":     `$PROBE socket 2 1 262`,
			"of datagrams":         `$PROBE socket 2 2 0`,
			"of datagrams of IPv6": `$PROBE socket 10 2 0`,
			"for echoes":           `$PROBE socket 2 2 17`,
			"of the kernel":        `$PROBE socket 16 3 0`,
			"of its events":        `$PROBE socket 16 3 15`,
			"with a wide family":   `$PROBE socket 0x100000002 1 0`,
		}),
		onlyRoot(named("have a socket", map[string]string{
			"of raw packets":         `$PROBE socket 2 3 255`,
			"of raw packets of IPv6": `$PROBE socket 10 3 255`,
			"of frames":              `$PROBE socket 17 3 768`,
			"of echoes":              `$PROBE socket 2 3 1`,
		})),
		unproven("this kernel may not have it", named("have a socket", map[string]string{
			"of virtual machines": `$PROBE socket 40 1 0`,
			"of ciphers":          `$PROBE socket 38 5 0`,
			"of express data":     `$PROBE socket 44 3 0`,
			"of streams":          `$PROBE socket 2 1 132`,
			"of Bluetooth":        `$PROBE socket 31 3 1`,
			"of CAN":              `$PROBE socket 29 3 1`,
			"of TIPC":             `$PROBE socket 30 1 0`,
		})),
	)
	rows = append(rows, hostSockets("")...)
	allowed := hostSockets(" with the network")
	for i := range allowed {
		allowed[i].network = true
	}
	for _, e := range unproven("this kernel may not have it", named("with the network have a socket", map[string]string{
		"of frames":           `$PROBE socket 17 3 768`,
		"of raw packets":      `$PROBE socket 2 3 255`,
		"of virtual machines": `$PROBE socket 40 1 0`,
		"of ciphers":          `$PROBE socket 38 5 0`,
	})) {
		e.network = true
		allowed = append(allowed, e)
	}
	return append(rows, allowed...)
}

// hostSockets are those that need no network.
func hostSockets(how string) []escape {
	return named("reach a service of the machine"+how, map[string]string{
		"by a path":                 `$PROBE dial unix "$SOCKET"`,
		"by the worker's root":      `$PROBE dial unix "/proc/$WORKER/root$SOCKET"`,
		"by a link":                 `ln -s "$SOCKET" s && $PROBE dial unix s`,
		"by a pair of datagrams":    `perl -MSocket -e 'socketpair(S, T, PF_UNIX, SOCK_DGRAM, 0) or die; send(S, "hi", 0, sockaddr_un($ENV{SOCKET_DGRAM})) or die'`,
		"by an abstract name":       `$PROBE dial unix "@$ABSTRACT"`,
		"by abstract datagrams":     `$PROBE dial unixgram "@$ABSTRACT_DGRAM"`,
		"by an abstract name, perl": `perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or die; connect(S, pack("S a*", AF_UNIX, "\0$ENV{ABSTRACT}")) or die'`,
	})
}

func privilegeEscapes() []escape {
	return all(
		onlyRoot(named("become another", map[string]string{
			"as root":               `$PROBE setid 0`,
			"as another user":       `$PROBE setid 1`,
			"in root's group":       `$PROBE setgid 0`,
			"in another group":      `$PROBE setgroups 0`,
			"by su":                 `su root -s /bin/sh -c 'echo ESCAPED' </dev/null`,
			"by setpriv":            `setpriv --reuid 0 --regid 0 --clear-groups sh -c 'echo ESCAPED'`,
			"by chroot":             `chroot / /bin/sh -c 'echo ESCAPED'`,
			"by giving a file away": `touch f && chown 1:1 f && echo ESCAPED`,
			"by a setuid program":   `cp /usr/bin/id i && chown 0:0 i && chmod 4755 i && ./i -u && test "$(stat -c %u:%a i)" = 0:4755 && echo ESCAPED`,
		})),
		named("leave a program", map[string]string{
			"of its owner's":            `cp /usr/bin/id i && chmod 4755 i; test -u i && echo ESCAPED`,
			"of its group's":            `cp /usr/bin/id i && chmod 2755 i; test -g i && echo ESCAPED`,
			"of both":                   `cp /usr/bin/id i && chmod ug+s i; test -u i -o -g i && echo ESCAPED`,
			"of its owner's, by perl":   `cp /usr/bin/id i && perl -e 'chmod 04755, "i"'; test -u i && echo ESCAPED`,
			"of its owner's, made so":   `perl -MFcntl -e 'umask 0; sysopen F, "i", O_CREAT | O_WRONLY, 04755'; test -u i && echo ESCAPED`,
			"of its group's, made so":   `perl -MFcntl -e 'umask 0; sysopen F, "i", O_CREAT | O_EXCL | O_RDWR, 02755'; test -g i && echo ESCAPED`,
			"of its owner's, installed": `install -m 4755 /usr/bin/id i; test -u i && echo ESCAPED`,
			"of its owner's, packed":    `cp /usr/bin/id i && tar cf a.tar --mode=4755 i && rm i && tar xpf a.tar; test -u i && echo ESCAPED`,
		}),
		onlyRoot(named("have capabilities", map[string]string{
			"to administer":         `$PROBE capability 21`,
			"to see all files":      `$PROBE capability 1`,
			"to look into others":   `$PROBE capability 19`,
			"to administer network": `$PROBE capability 12`,
			"to use raw sockets":    `$PROBE capability 13`,
			"to make devices":       `$PROBE capability 27`,
			"to become others":      `$PROBE capability 7`,
			"to load modules":       `$PROBE capability 16`,
			"in the bounding set":   `grep -q 'CapBnd:.*[1-9a-f]' /proc/self/status && echo ESCAPED`,
			"in force":              `grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo ESCAPED`,
		})),
		onlyRoot(named("make", map[string]string{
			"a device of memory": `mknod m c 1 1 && echo ESCAPED`,
			"a device of disks":  `mknod d b 254 0 && echo ESCAPED`,
			"a device of null":   `mknod n c 1 3 && echo x >n && echo ESCAPED`,
		})),
		named("have namespaces", map[string]string{
			"of users":           `unshare -U true && echo ESCAPED`,
			"of users and root":  `unshare -Ur true && echo ESCAPED`,
			"of mounts":          `unshare -Urm true && echo ESCAPED`,
			"of networks":        `unshare -Urn true && echo ESCAPED`,
			"of processes":       `unshare -Urpf true && echo ESCAPED`,
			"of IPC":             `unshare -Uri true && echo ESCAPED`,
			"of names":           `unshare -Uru true && echo ESCAPED`,
			"of groups":          `unshare -UrC true && echo ESCAPED`,
			"with a bind mount":  `unshare -Urm sh -c 'mount --bind "$OUT" "$WORK" && cat "$WORK/secret"'`,
			"with a new proc":    `unshare -Urmpf --mount-proc true && echo ESCAPED`,
			"with a chroot":      `unshare -Ur chroot / sh -c 'echo ESCAPED'`,
			"with a file system": `unshare -Urm mount -t tmpfs none "$WORK" && echo ESCAPED`,
		}),
		onlyRoot(named("enter namespaces", map[string]string{
			"of the worker":           `nsenter -t "$WORKER" -m true && echo ESCAPED`,
			"of the worker's network": `nsenter -t "$WORKER" -n true && echo ESCAPED`,
			"of the worker's IPC":     `nsenter -t "$WORKER" -i true && echo ESCAPED`,
			"of its parent":           `nsenter -t "$PPID" -p true && echo ESCAPED`,
		})),
		unproven("the machine's first process may be closed to root too", named("enter namespaces", map[string]string{
			"of process 1":       `nsenter -t 1 -m true && echo ESCAPED`,
			"by its environment": `cat /proc/1/environ >/dev/null && echo ESCAPED`,
		})),
		named("reach into the worker", map[string]string{
			"by tracing":             `$PROBE ptrace "$VICTIM"`,
			"by reading":             `$PROBE readv "$VICTIM"`,
			"by taking a descriptor": `$PROBE getfd "$VICTIM"`,
		}),
		onlyRoot(named("change limits", map[string]string{
			"of a file's size":  `$PROBE rlimit 0 1`,
			"of file sizes":     `ulimit -H -f unlimited && echo ESCAPED`,
			"of core files":     `ulimit -c unlimited && echo ESCAPED`,
			"of time":           `ulimit -t unlimited && echo ESCAPED`,
			"of the worker":     `$PROBE rlimit "$VICTIM" 4`,
			"by being nicer":    `n=$(nice); nice -n -1 sh -c 'test "$(nice)" -lt "$0" && echo ESCAPED' "$n"`,
			"by real time":      `chrt -f 1 true && echo ESCAPED`,
			"of others' chance": `renice -n 1 -p "$VICTIM" && echo ESCAPED`,
		})),
	)
}

func processEscapes() []escape {
	return all(
		named("reach a process", map[string]string{
			"by a signal":        `kill -0 "$VICTIM" && echo ESCAPED`,
			"of the worker":      `kill -0 "$WORKER" && echo ESCAPED`,
			"by its group":       `kill -0 -- "-$VICTIM" && echo ESCAPED`,
			"by another program": `$PROBE signal "$VICTIM"`,
			"by its name":        `ls /proc | while read -r p; do grep -qs '^sleep' "/proc/$p/comm" && echo ESCAPED; done`,
			"by its affinity":    `taskset -p "$VICTIM" && echo ESCAPED`,
		}),
		named("stay", map[string]string{
			"in the background":        `sleep $MARK & disown`,
			"without a terminal":       `nohup sleep $MARK >/dev/null 2>&1 &`,
			"in a session":             `setsid sleep $MARK >/dev/null 2>&1 &`,
			"in a session of its own":  `setsid -f sleep $MARK >/dev/null 2>&1`,
			"twice removed":            `( ( sleep $MARK >/dev/null 2>&1 & ) & ) ; sleep 0.05`,
			"deaf to signals":          `(trap '' HUP INT TERM; exec setsid sleep $MARK) >/dev/null 2>&1 &`,
			"as a daemon":              `perl -MPOSIX -e 'fork and exit; POSIX::setsid(); fork and exit; chdir "/"; open STDIN, "/dev/null"; open STDOUT, ">/dev/null"; open STDERR, ">/dev/null"; exec "sleep", $ENV{MARK}'; sleep 0.1`,
			"as a crowd":               `for i in 1 2 3 4 5 6 7 8; do setsid sleep $MARK >/dev/null 2>&1 & done`,
			"stopped":                  `setsid sleep $MARK >/dev/null 2>&1 & p=$!; until grep -qs sleep /proc/$p/comm; do :; done; kill -STOP $p`,
			"as a coprocess":           `coproc sleep $MARK; disown`,
			"behind a pipe":            `sleep $MARK | cat >/dev/null & disown`,
			"though it ends by itself": `setsid sleep $MARK >/dev/null 2>&1 & kill -9 $$`,
			"by coming again":          `setsid bash -c 'trap "" TERM; while :; do sleep $MARK; done' >/dev/null 2>&1 & sleep 0.05`,
		}),
	)
}

func resourceEscapes() []escape {
	rows := named("use more", map[string]string{
		"processes":              `perl -e 'for (1 .. 100) { my $p = fork; defined $p or last; if (!$p) { sleep 2; exit } $n++ } print "ESCAPED" if $n > 60; 1 while wait > 0'`,
		"processes of processes": `perl -e 'for (1 .. 8) { fork } open F, ">", "p$$"; sleep 1; 1 while wait > 0'; sleep 0.5; set -- p*; test $# -gt 60 && echo ESCAPED`,
		"memory":                 `perl -e '$x = "a" x (200 << 20); print "ESCAPED" if length $x'`,
		"memory of an array":     `perl -e 'push @a, "a" x (1 << 20) for 1 .. 150; print "ESCAPED" if @a == 150'`,
		"memory of the shell":    `x=$(head -c 90000000 /dev/zero | tr '\0' a); test ${#x} -gt 80000000 && echo ESCAPED`,
		"a long file":            `head -c 5000000 /dev/zero >f; test "$(stat -c %s f)" -gt 4000000 && echo ESCAPED`,
		"a long file with holes": `truncate -s 1G f && echo ESCAPED`,
		"open files":             `perl -e 'for (1 .. 200) { open my $f, "<", "/dev/null" or last; push @f, $f } print "ESCAPED" if @f == 200'`,
		"time":                   `perl -e '1 while (times)[0] < 1.6; print "ESCAPED"'`,
		"room in /tmp":           `f=$(mktemp -d /tmp/$MARK.XXXX); for i in 1 2 3 4 5 6 7 8; do head -c 500000 /dev/zero >$f/$i; done; test "$(cat $f/* | wc -c)" -gt 3000000 && echo ESCAPED; rm -rf $f`,
		"room in /dev/shm":       `mkdir /dev/shm/$MARK; for i in 1 2 3 4 5 6 7 8; do head -c 500000 /dev/zero >/dev/shm/$MARK/$i; done; test "$(cat /dev/shm/$MARK/* | wc -c)" -gt 3000000 && echo ESCAPED; rm -rf /dev/shm/$MARK`,
	})
	for i := range rows {
		rows[i].tight = true
	}
	return rows
}

// kernelEscapes are the calls of the filter, each made with arguments that do nothing.
func kernelEscapes() []escape {
	// Few kernels have these, or all of them refuse them in the same way.
	absent := []string{"kexec_file_load", "kexec_load", "quotactl_fd", "quotactl", "swapon", "swapoff", "finit_module", "init_module", "delete_module", "userfaultfd", "fanotify_init", "fchmodat2_setuid", "openat2"}
	var rows []escape
	for _, name := range slices.Sorted(maps.Keys(allCalls())) {
		e := escape{name: "call " + name, script: "$PROBE call " + name, root: true}
		if slices.Contains(absent, name) {
			e.unproven = "this kernel may not have it"
		}
		rows = append(rows, e)
	}
	return rows
}
