package flags

import (
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Help is as wide as the terminal, within reason.
const (
	widthOfPages = 100 // where it goes elsewhere than to a terminal
	narrow       = 60
	wide         = 140
)

// help shows what a command does and what it takes.
func help(c *cobra.Command, args []argument) {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage: %s\n", usageLine(c))
	if c.Long != "" {
		fmt.Fprintf(&out, "\n%s\n", ansi.Wordwrap(c.Long, width(c), ""))
	}
	if len(args) > 0 {
		fmt.Fprint(&out, "\nArguments:\n", list(argumentLines(args), width(c)))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprint(&out, "\nCommands:\n", list(commandLines(c), width(c)))
	}
	if local := c.LocalFlags(); local.HasAvailableFlags() {
		fmt.Fprint(&out, "\nFlags:\n", local.FlagUsagesWrapped(width(c)))
	}
	if inherited := c.InheritedFlags(); inherited.HasAvailableFlags() {
		fmt.Fprint(&out, "\nFlags of all commands:\n", inherited.FlagUsagesWrapped(width(c)))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\n\"%s <command> --help\" says more about one.\n", c.CommandPath())
	}
	fmt.Fprint(c.OutOrStdout(), out.String())
}

func usageLine(c *cobra.Command) string {
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = strings.Replace(line, c.CommandPath(), c.CommandPath()+" <command>", 1)
	}
	return line
}

// line is a name with what there is to say of it.
type line struct{ name, says string }

func argumentLines(args []argument) (lines []line) {
	for _, a := range args {
		lines = append(lines, line{a.String(), a.help})
	}
	return lines
}

func commandLines(c *cobra.Command) (lines []line) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			lines = append(lines, line{sub.Name(), sub.Short})
		}
	}
	return lines
}

// list shows lines in two columns.
func list(lines []line, width int) string {
	longest := 0
	for _, l := range lines {
		longest = max(longest, len(l.name))
	}
	var out strings.Builder
	for _, l := range lines {
		says := ansi.Wordwrap(l.says, max(width-longest-len("    "), narrow/2), "")
		says = strings.ReplaceAll(says, "\n", "\n"+strings.Repeat(" ", longest+len("    ")))
		fmt.Fprintf(&out, "  %-*s  %s\n", longest, l.name, says)
	}
	return out.String()
}

// width is that of what help is shown on.
func width(c *cobra.Command) int {
	if f, is := c.OutOrStdout().(*os.File); is {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(columns, narrow), wide)
		}
	}
	return widthOfPages
}
