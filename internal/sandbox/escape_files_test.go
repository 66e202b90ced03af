package sandbox

import "fmt"

// named makes a row of each script.
func named(prefix string, scripts map[string]string) []escape {
	var rows []escape
	for name, script := range scripts {
		rows = append(rows, escape{name: prefix + " " + name, script: script})
	}
	return rows
}

func onlyRoot(rows []escape) []escape {
	for i := range rows {
		rows[i].root = true
	}
	return rows
}

func unproven(why string, rows []escape) []escape {
	for i := range rows {
		rows[i].unproven = why
	}
	return rows
}

func all(groups ...[]escape) []escape {
	var rows []escape
	for _, g := range groups {
		rows = append(rows, g...)
	}
	return rows
}

func readEscapes() []escape {
	return all(
		named("read a file", map[string]string{
			"by its path":              `cat "$SECRET_FILE"`,
			"with the shell":           `echo "$(<"$SECRET_FILE")"`,
			"into an array":            `mapfile -t a <"$SECRET_FILE"; echo "${a[@]}"`,
			"through a descriptor":     `exec 9<"$SECRET_FILE" && cat <&9`,
			"by sourcing it":           `. "$SECRET_FILE" 2>&1`,
			"with dd":                  `dd if="$SECRET_FILE" bs=1 2>/dev/null`,
			"backwards":                `tac "$SECRET_FILE"`,
			"as a pattern":             `grep . "$SECRET_FILE"`,
			"in an archive":            `tar cf - -C "$OUT" secret | tar xfO -`,
			"with perl":                `perl -ne print "$SECRET_FILE"`,
			"by copying it here":       `cp "$SECRET_FILE" copy && cat copy`,
			"by a symbolic link":       `ln -s "$SECRET_FILE" link && cat link`,
			"by a relative link":       `ln -s ../out/secret link && cat link`,
			"by a linked directory":    `ln -s "$OUT" link && cat link/secret`,
			"by a chain of links":      `ln -s .. up && ln -s up/out in && cat in/secret`,
			"by a hard link":           `ln "$SECRET_FILE" link && cat link`,
			"by moving it here":        `mv "$SECRET_FILE" moved && cat moved`,
			"upwards":                  `cat ../out/secret`,
			"from its directory":       `cd "$OUT" && cat secret`,
			"by the root":              `cd / && cat "./$SECRET_FILE"`,
			"by its own root":          `cat "/proc/self/root$SECRET_FILE"`,
			"by its directory":         `cat /proc/self/cwd/../out/secret`,
			"by the parent's root":     `cat "/proc/$PPID/root$SECRET_FILE"`,
			"by the worker's root":     `cat "/proc/$WORKER/root$SECRET_FILE"`,
			"with a bind in mind":      `find "$OUT" -name secret -exec cat {} +`,
			"by its name":              `ls "$OUT/dir"`,
			"by completion":            `echo "$OUT"/dir/*`,
			"by its directory entry":   `find "$OUT"`,
			"that others have open":    `cat /proc/[0-9]*/fd/77 2>/dev/null`,
			"that the worker has open": `cat "/proc/$WORKER/fd/77"`,
			"that it was given":        `cat /proc/self/fd/77`,
			"of shared memory":         `cat "$SHARED"`,
		}),
		named("read another workspace", map[string]string{
			"by its path":    `cat "$OTHER/notes"`,
			"beside its own": `cat ../other/notes`,
			"by searching":   `grep -rs . ..`,
			"by listing it":  `test -e "$OTHER/notes" && echo ESCAPED`,
			"by a link":      `ln -s "$OTHER" theirs && cat theirs/*`,
			"by copying all": `cp -r ../other copy; cat copy/notes`,
		}),
		named("read the worker's environment", map[string]string{
			"as its own":         `env`,
			"as the shell's":     `echo "$COPPICE_TEST_KEY"`,
			"from the worker":    `tr '\0' '\n' <"/proc/$WORKER/environ"`,
			"from the parent":    `tr '\0' '\n' <"/proc/$PPID/environ"`,
			"from all processes": `cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'`,
			"with ps":            `ps axeww`,
			"from its own stack": `cat /proc/self/environ | tr '\0' '\n'`,
			"from a task":        `cat /proc/"$WORKER"/task/*/environ | tr '\0' '\n'`,
		}),
		named("look into the worker", map[string]string{
			"at its maps":      `cat "/proc/$WORKER/maps" >/dev/null && echo ESCAPED`,
			"at its memory":    `exec 9<"/proc/$WORKER/mem" && echo ESCAPED`,
			"at its files":     `ls "/proc/$WORKER/fd" && echo ESCAPED`,
			"at its program":   `test -s "/proc/$WORKER/exe" && echo ESCAPED`,
			"at its directory": `readlink "/proc/$WORKER/cwd" && echo ESCAPED`,
			"at its call":      `cat "/proc/$WORKER/syscall" && echo ESCAPED`,
			"at its arguments": `tr '\0' ' ' <"/proc/$WORKER/cmdline" && echo ESCAPED`,
			"at its processes": `test -d "/proc/$VICTIM" && echo ESCAPED`,
		}),
		named("open a terminal", map[string]string{
			"to read": `exec 9<"$TERMINAL" && echo ESCAPED`,
			"to type": `exec 9>"$TERMINAL" && echo ESCAPED`,
		}),
		onlyRoot(named("read what is root's", map[string]string{
			"the passwords": `grep -q . /etc/shadow && echo ESCAPED`,
			"the groups'":   `grep -q . /etc/gshadow && echo ESCAPED`,
			"the home":      `ls -A /root/ && echo ESCAPED`,
			"the log":       `dd if=/dev/kmsg bs=8192 count=1 of=/dev/null && echo ESCAPED`,
			"keys of ssh":   `cat /etc/ssh/*_key /root/.ssh/* 2>/dev/null; ls -d /etc/ssh /root && echo ESCAPED`,
		})),
		unproven("this kernel may not have it", named("read what is root's", map[string]string{
			"the memory": `head -c 1 /proc/kcore | grep -q E && echo ESCAPED`,
			"the ports":  `head -c 1 /dev/port && echo ESCAPED`,
			"the RAM":    `head -c 1 /dev/mem && echo ESCAPED`,
		})),
		named("see the machine", map[string]string{
			"its homes":         `ls /home && echo ESCAPED`,
			"its variable data": `ls /var/lib && echo ESCAPED`,
			"its sockets":       `ls -d /run/* && echo ESCAPED`,
			"its devices":       `ls /sys/class && echo ESCAPED`,
			"its configuration": `test -e /etc/fstab && echo ESCAPED`,
			"its tasks":         `ls /etc/cron.d /etc/cron.daily /etc/init.d && echo ESCAPED`,
			"its disks":         `for d in /dev/[vsx]d[a-z] /dev/nvme0n1 /dev/loop0; do test -e "$d" && echo ESCAPED; done`,
		}),
	)
}

func writeEscapes() []escape {
	rows := named("write outside", map[string]string{
		"by a path":                `echo x >"$OUT/new"`,
		"to a file":                `echo x >"$SECRET_FILE"`,
		"to the end of a file":     `echo x >>"$SECRET_FILE"`,
		"past noclobber":           `echo x >|"$SECRET_FILE"`,
		"with tee":                 `echo x | tee "$SECRET_FILE"`,
		"with dd":                  `echo x | dd of="$SECRET_FILE" conv=notrunc`,
		"by truncating":            `truncate -s 0 "$SECRET_FILE"`,
		"by reserving":             `fallocate -l 4096 "$SECRET_FILE"`,
		"by copying":               `echo x >f && cp f "$OUT/f"`,
		"by moving":                `echo x >f && mv f "$OUT/f"`,
		"by installing":            `echo x >f && install -m 755 f "$OUT/f"`,
		"by linking":               `echo x >f && ln f "$OUT/f"`,
		"by a hard link":           `ln "$SECRET_FILE" here && echo x >here`,
		"by a symbolic link":       `ln -s "$SECRET_FILE" here && echo x >here`,
		"by a linked directory":    `ln -s "$OUT" here && echo x >here/new`,
		"by a link to the root":    `ln -s / here && echo x >"here$OUT/new"`,
		"by a dangling link":       `ln -s "$OUT/new" here && echo x >here`,
		"upwards":                  `echo x >../out/new`,
		"from a subdirectory":      `mkdir -p a/b && cd a/b && echo x >../../../out/new`,
		"by its own root":          `echo x >"/proc/self/root$OUT/new"`,
		"by its directory":         `echo x >/proc/self/cwd/../out/new`,
		"by the worker's root":     `echo x >"/proc/$WORKER/root$OUT/new"`,
		"by the parent's root":     `echo x >"/proc/$PPID/root$OUT/new"`,
		"by an archive":            `mkdir t && echo x >t/new && tar cf a.tar -C t new && tar xf a.tar -C "$OUT"`,
		"by an archive's paths":    `echo x >new && tar cPf a.tar --transform "s,.*,$OUT/new," new && tar xPf a.tar`,
		"a directory":              `mkdir "$OUT/new"`,
		"a pipe":                   `mkfifo "$OUT/new"`,
		"a link":                   `ln -s x "$OUT/new"`,
		"by removing a file":       `rm -f "$SECRET_FILE"`,
		"by removing a directory":  `rm -rf "$OUT/dir"`,
		"by renaming a file":       `mv "$SECRET_FILE" "$OUT/renamed"`,
		"by renaming a directory":  `mv "$OUT/dir" "$OUT/renamed"`,
		"by moving a file away":    `mv "$SECRET_FILE" .`,
		"by exchanging workspaces": `cd .. && mv other taken`,
		"to another workspace":     `echo x >../other/new`,
		"by the time of a file":    `touch -d 2001-01-01 "$SECRET_FILE"`,
		"by a file's rights":       `chmod 600 "$SECRET_FILE"`,
		"by a directory's rights":  `chmod 700 "$OUT"`,
		"in place":                 `sed -i s/./x/g "$SECRET_FILE"`,
		"with perl":                `perl -e 'open F, ">", "$ENV{OUT}/new" or die; print F "x"'`,
		"with a process's output":  `echo x > >(cat >"$OUT/new"); wait; sleep 0.1`,
		"in the background":        `(sleep 0.05; echo x >"$OUT/new") & wait`,
		"to a file it was given":   `perl -e 'open F, "+>&=77" and syswrite(F, "x") and print "ESCAPED"'`,
	})
	return all(rows, systemWrites(), onlyRoot(named("write to the kernel", map[string]string{
		"its settings":        `cat /proc/sys/kernel/core_pattern >v && cat v >/proc/sys/kernel/core_pattern && echo ESCAPED`,
		"its host name":       `cat /proc/sys/kernel/hostname >v && cat v >/proc/sys/kernel/hostname && echo ESCAPED`,
		"its network":         `cat /proc/sys/net/ipv4/ip_forward >v && cat v >/proc/sys/net/ipv4/ip_forward && echo ESCAPED`,
		"its memory settings": `cat /proc/sys/vm/swappiness >v && cat v >/proc/sys/vm/swappiness && echo ESCAPED`,
		"its log":             `echo coppice-test >/dev/kmsg && echo ESCAPED`,
	})), unproven("this kernel may not have it", named("write to the kernel", map[string]string{
		"its modules":  `cat /proc/sys/kernel/modprobe >v && cat v >/proc/sys/kernel/modprobe && echo ESCAPED`,
		"its requests": `exec 9>/proc/sysrq-trigger && echo ESCAPED`,
	})), named("write to the worker", map[string]string{
		"its chance to be killed": `cat "/proc/$WORKER/oom_score_adj" >v && cat v >"/proc/$WORKER/oom_score_adj" && echo ESCAPED`,
		"its memory":              `exec 9<>"/proc/$WORKER/mem" && echo ESCAPED`,
		"another's chance":        `cat "/proc/$VICTIM/oom_score" && echo 5 >"/proc/$VICTIM/oom_score_adj" && echo ESCAPED`,
		"its open file":           `exec 9>>"/proc/$WORKER/fd/77" && echo ESCAPED`,
	}))
}

// systemWrites try to make a file in each of the machine's directories.
func systemWrites() []escape {
	var rows []escape
	for _, dir := range []string{
		"/", "/usr", "/usr/bin", "/usr/local/bin", "/usr/lib", "/etc", "/etc/profile.d", "/bin", "/sbin", "/lib", "/dev",
		"/opt", "/root", "/home", "/var", "/var/lib", "/run", "/srv", "/mnt", "/boot",
	} {
		rows = append(rows, escape{
			name: "write to " + dir, root: true,
			script: fmt.Sprintf(`f=%s/coppice-test-$MARK; echo x >"$f" && rm "$f" && echo ESCAPED`, dir),
		})
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		// There may be one of that name in the sandbox: it is the worker's that counts.
		rows = append(rows, escape{
			name:   "leave something in " + dir,
			script: fmt.Sprintf(`mkdir -p %s && echo x >%[1]s/$MARK; ln -sf %[1]s/$MARK "$OUT/left"; ls "$OUT"/left && echo ESCAPED; rm -f %[1]s/$MARK`, dir),
		})
	}
	return rows
}
