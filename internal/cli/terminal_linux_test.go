package cli_test

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestTerminal plays what a person types whose output is a terminal. Besides the commands of
// the other scripts there is:
//
//	terminal CODE coppice ARG…
//		runs a command that has to end with this exit code; what it writes to its
//		terminal of 80x24, as it came, is the output
func TestTerminal(t *testing.T) {
	t.Parallel()
	params := scripts("testdata/terminal")
	params.Cmds["terminal"] = terminal
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
