package flags

import (
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Help is as wide as the terminal, within bounds.
const (
	defaultWidth = 100 // if the output is not a terminal
	narrow       = 60
	wide         = 140
)

// help shows what a command does and accepts.
func help(c *cobra.Command, args []argument) {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage: %s\n", usageLine(c))
	if c.Long != "" {
		fmt.Fprintf(&out, "\n%s\n", wrapped(c.Long, width(c)))
	}
	if len(args) > 0 {
		lines := argumentLines(args)
		fmt.Fprint(&out, "\nArguments:\n", list(lines, longest(lines), width(c)))
	}
	rest := &cobra.Group{Title: "Commands"}
	if len(c.Groups()) > 0 {
		rest.Title = "Other commands"
	}
	column := longest(commandLines(c, nil))
	for _, g := range append(c.Groups(), rest) {
		if lines := commandLines(c, g); len(lines) > 0 {
			fmt.Fprintf(&out, "\n%s:\n%s", g.Title, list(lines, column, width(c)))
		}
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

// line is a name with its description.
type line struct{ name, says string }

func argumentLines(args []argument) (lines []line) {
	for _, a := range args {
		lines = append(lines, line{a.String(), a.help})
	}
	return lines
}

// commandLines returns the commands of a group, or all.
func commandLines(c *cobra.Command, group *cobra.Group) (lines []line) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && (group == nil || sub.GroupID == group.ID) {
			lines = append(lines, line{sub.Name(), sub.Short})
		}
	}
	return lines
}

func longest(lines []line) (column int) {
	for _, l := range lines {
		column = max(column, len(l.name))
	}
	return column
}

// list formats lines in two columns. column is the width of the first.
func list(lines []line, column, width int) string {
	var out strings.Builder
	for _, l := range lines {
		says := wrapped(l.says, max(width-column-len("    "), narrow/2))
		says = strings.ReplaceAll(says, "\n", "\n"+strings.Repeat(" ", column+len("    ")))
		fmt.Fprintf(&out, "  %-*s  %s\n", column, l.name, says)
	}
	return out.String()
}

// wrapped breaks a text only at spaces. [ansi.Wordwrap] also breaks at hyphens, which may
// belong to a flag.
func wrapped(text string, width int) string {
	const unbroken = "\u2011"
	text = ansi.Wordwrap(strings.ReplaceAll(text, "-", unbroken), width, "")
	return strings.ReplaceAll(text, unbroken, "-")
}

// width returns the width of the output.
func width(c *cobra.Command) int {
	if f, is := c.OutOrStdout().(*os.File); is {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(columns, narrow), wide)
		}
	}
	return defaultWidth
}
