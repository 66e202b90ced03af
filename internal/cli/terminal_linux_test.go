package cli_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestTerminal plays what a person types whose output is a terminal. Besides the commands of
// the other scripts there is:
//
//	terminal CODE coppice ARG…
//		runs a command that has to end with this exit code; what it writes to its
//		terminal of 80x24, as it came, is the output
//	types CODE TEXT KEY… -- coppice ARG…
//		does so with a terminal for its input and its errors too; once a text is on
//		its screen its key is typed, until the next text is, or the command has ended.
//		^C is typed once, because a second one would end the command without a word
func TestTerminal(t *testing.T) {
	t.Parallel()
	params := scripts("testdata/terminal")
	params.Cmds["terminal"], params.Cmds["types"] = terminal, types
	testscript.Run(t, params)
}

func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal CODE COMMAND ARG...")
	}
	ours, theirs, err := openTerminal()
	ts.Check(err)
	defer ours.Close()
	cmd := command(ts, args[1], args[2:]...)
	cmd.Stdout, cmd.Stderr = theirs, ts.Stderr()
	err = cmd.Start()
	theirs.Close()
	ts.Check(err)
	defer time.AfterFunc(untilAtMost, func() { _ = cmd.Process.Kill() }).Stop()
	_, _ = io.Copy(ts.Stdout(), ours) // which fails once nobody has the terminal any more
	checkCode(ts, args[0], cmd.Wait())
}

func types(ts *testscript.TestScript, neg bool, args []string) {
	end := slices.Index(args, "--")
	if neg || end < 3 || end%2 == 0 || len(args) < end+2 {
		ts.Fatalf("usage: types CODE TEXT KEY... -- COMMAND ARG...")
	}
	ours, theirs, err := openTerminal()
	ts.Check(err)
	defer ours.Close()
	cmd := command(ts, args[end+1], args[end+2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	err = cmd.Start()
	theirs.Close()
	ts.Check(err)
	// What comes is what has changed: only the whole can be read.
	screen := vt.NewEmulator(columns, rows)
	go func() { _, _ = io.Copy(ours, screen) }() // a terminal is asked what it can do
	defer screen.InputPipe().(io.Closer).Close() // its Close races with a Read
	shown := make(chan string)
	go show(ours, shown)
	again := time.NewTicker(untilAgain)
	defer again.Stop()
	giveUp := time.After(untilAtMost)
	typed, key := args[1:end], ""
	const interrupt = "\x03"
	for going := true; going; {
		var piece string
		select {
		case piece, going = <-shown:
			fmt.Fprint(ts.Stdout(), piece)
			_, err = screen.WriteString(piece)
			ts.Check(err)
			if len(typed) > 0 && strings.Contains(screen.String(), typed[0]) {
				key, typed = strings.ReplaceAll(typed[1], "^C", interrupt), typed[2:]
			}
		case <-again.C:
			_, _ = io.WriteString(ours, key) // which fails once it has ended
			if key == interrupt {
				key = ""
			}
		case <-giveUp:
			ts.Logf("it has not ended; the screen:\n%s", screen)
			ts.Check(cmd.Process.Kill())
		}
	}
	err = cmd.Wait()
	if len(typed) > 0 {
		ts.Fatalf("it has not shown %q (%v)", typed[0], err)
	}
	checkCode(ts, args[0], err)
}

// show gives what is written to a terminal, until nobody has it any more.
func show(ours io.Reader, shown chan<- string) {
	defer close(shown)
	for piece := make([]byte, 4096); ; {
		n, err := ours.Read(piece)
		if err != nil {
			return
		}
		shown <- string(piece[:n])
	}
}

// The size of a terminal.
const columns, rows = 80, 24

// openTerminal opens both ends of a new terminal.
func openTerminal() (ours, theirs *os.File, err error) {
	if ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
