package cli_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
//		does so with a terminal for its input and its errors too; once that shows a
//		text its key is typed, until it shows the next text, or the command has ended
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
	shown := make(chan string)
	go func() {
		defer close(shown)
		for piece := make([]byte, 4096); ; {
			n, err := ours.Read(piece)
			if err != nil {
				return // nobody has the terminal any more
			}
			shown <- string(piece[:n])
		}
	}()
	again := time.NewTicker(untilAgain)
	defer again.Stop()
	typed, seen, key := args[1:end], "", ""
	escapes := strings.NewReplacer("^C", "\x03")
	for going := true; going; {
		select {
		case piece, more := <-shown:
			fmt.Fprint(ts.Stdout(), piece)
			going, seen = more, seen+piece
			if len(typed) > 0 && strings.Contains(seen, typed[0]) {
				key, typed, seen = escapes.Replace(typed[1]), typed[2:], ""
			}
		case <-again.C:
			_, _ = io.WriteString(ours, key) // which fails once it has ended
		}
	}
	checkCode(ts, args[0], cmd.Wait())
	if len(typed) > 0 {
		ts.Fatalf("it has not shown %s", typed[0])
	}
}

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
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
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
