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
	widthOfPages    = 100 // where it goes elsewhere than to a terminal
	narrow          = 60
	wide            = 140
	gapAfterCommand = 2
)

// help shows what a command does and what it takes.
func help(c *cobra.Command) {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage: %s\n", usageLine(c))
	if c.Long != "" {
		fmt.Fprintf(&out, "\n%s\n", ansi.Wordwrap(c.Long, width(c), ""))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprint(&out, "\nCommands:\n", commandList(c))
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

// commandList shows the commands below one, in the order of their declaration.
func commandList(c *cobra.Command) string {
	longest := 0
	for _, sub := range c.Commands() {
		longest = max(longest, len(sub.Name()))
	}
	var out strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&out, "  %-*s%s\n", longest+gapAfterCommand, sub.Name(), sub.Short)
		}
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
