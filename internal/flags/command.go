package flags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is a process's command line.
type Program struct {
	Name  string
	About string // what it does
	Envs  string // prefix of the variables of flags without env; empty: they have none
	// Run runs a command: a pointer to the field that declares it. typed are the flags on the
	// command line, by name, without those from the environment.
	Run func(ctx context.Context, command any, typed []Typed) error
	// Complete returns the values for an argument of a command, or for a flag if the name begins
	// with --, for shell completion. A value may be followed by a tab and a short description.
	// given are the arguments before it. known reports whether Complete knows the argument; if
	// not, or if Complete is nil, shells offer files. Flags with an enum need no Complete.
	Complete       func(ctx context.Context, command any, argument string, given []string) (values []string, known bool)
	Stdout, Stderr io.Writer

	helpError *error // why the requested help could not be shown
}

// Typed is a flag on the command line.
type Typed struct {
	Name  string
	Words []string // the arguments that set the flag
}

// UsageError is an error in the command line.
type UsageError struct {
	Err     error
	Command string // full name of the command whose help explains more
}

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *UsageError) Unwrap() error { return e.Err }

// Parse parses the command line of a process without commands into a struct. It exits the
// process if help was requested or the command line is wrong.
func Parse(into any, about string) {
	ran := false
	p := Program{
		Name: nameOfProcess(), About: about, Stdout: os.Stdout, Stderr: os.Stderr,
		Run: func(context.Context, any, []Typed) error { ran = true; return nil },
	}
	err := p.Main(context.Background(), into, os.Args[1:])
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %s; see %s --help\n", p.Name, err, p.Name)
		os.Exit(2)
	case !ran:
		os.Exit(0)
	}
}

func nameOfProcess() string {
	return os.Args[0][strings.LastIndexAny(os.Args[0], `/\`)+1:]
}

// Main runs the command that the arguments name, of those that a struct declares, or shows the
// requested help.
func (p Program) Main(ctx context.Context, declared any, args []string) error {
	keepDeclaredOrder()
	began := false
	run := p.Run
	p.Run = func(ctx context.Context, command any, typed []Typed) error {
		began = true
		return run(ctx, command, typed)
	}
	p.helpError = new(error)
	root, err := p.tree(&cobra.Command{Use: p.Name, Long: p.About}, reflect.ValueOf(declared).Elem())
	if err != nil {
		return fmt.Errorf("declaring the commands: %w", err)
	}
	root.PersistentFlags().BoolP("help", "h", false, "Show this.")
	root.Flags().Bool("version", false, "Show the version.")
	root.Version = Version()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return completeFromEnviron(c.Flags()) }
	root.SetArgs(args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	checkHelpCommand(root)
	if named, err := root.ExecuteContextC(ctx); err != nil || *p.helpError != nil {
		err = cmp.Or(err, *p.helpError)
		if began {
			return err
		}
		return &UsageError{withSuggestions(err, named.Flags()), named.CommandPath()}
	}
	return nil
}

// Version returns the version of the module. It contains the commit if the program was built
// from one.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// suggestDistance is how many letters of a command may be wrong for it to be suggested.
const suggestDistance = 2

// unknownCommand returns an error for an unknown command.
func unknownCommand(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = suggestDistance
	if meant := c.SuggestionsFor(given[0]); len(meant) > 0 {
		return fmt.Errorf("there is no command %s; did you mean %s?", given[0], strings.Join(meant, " or "))
	}
	return fmt.Errorf("there is no command %s", given[0])
}

// checkHelpCommand makes the help command reject unknown commands, as --help does.
func checkHelpCommand(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		c.Args = func(_ *cobra.Command, given []string) error {
			named, rest, err := root.Find(given)
			if err != nil || !named.HasSubCommands() || len(rest) == 0 {
				return err
			}
			return named.ValidateArgs(rest)
		}
	}
}

// withSuggestions adds similar flags to the error for an unknown flag, or how to write a text that
// was taken for one.
func withSuggestions(err error, flags *pflag.FlagSet) error {
	var unknown *pflag.NotExistError
	switch {
	case !errors.As(err, &unknown):
		return err
	case strings.ContainsAny(unknown.GetSpecifiedName()+unknown.GetSpecifiedShortnames(), " \t\n"):
		return fmt.Errorf("%w; put -- before a text that begins with a dash", err)
	case len(unknown.GetSpecifiedName()) <= suggestDistance:
		return err
	}
	names := &cobra.Command{SuggestionsMinimumDistance: suggestDistance} // cobra finds similar names of commands
	flags.VisitAll(func(flag *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
	})
	like := names.SuggestionsFor(unknown.GetSpecifiedName())
	if len(like) == 0 {
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(like, " or --"))
}

// keepDeclaredOrder makes help show commands in the order of their declaration.
var keepDeclaredOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// tree builds a command from a struct, with all its subcommands.
func (p Program) tree(command *cobra.Command, declared reflect.Value) (*cobra.Command, error) {
	g := &grammar{flags: command.Flags(), envs: p.Envs}
	isGroup := hasCommands(declared)
	if !command.HasParent() && isGroup {
		g.flags = command.PersistentFlags()
	}
	g.flags.SortFlags, command.Flags().SortFlags = false, false
	does := declared.Addr().Interface()
	err := g.read(declared, func(field reflect.StructField, below reflect.Value) error {
		name := nameOf(field)
		sub := &cobra.Command{Use: name, Short: field.Tag.Get("help"), Long: field.Tag.Get("help")}
		if title := field.Tag.Get("group"); title != "" {
			sub.GroupID = title
			if !command.ContainsGroup(title) {
				command.AddGroup(&cobra.Group{ID: title, Title: title})
			}
		}
		command.AddCommand(sub)
		if _, err := p.tree(sub, below); err != nil {
			return err
		}
		if field.Tag.Get("default") == "" {
			return nil
		}
		does, isGroup = below.Addr().Interface(), false
		return g.read(below, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command.Name(), err)
	}
	for _, a := range g.args {
		command.Use += " " + a.String()
	}
	command.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if isGroup {
			*p.helpError = unknownCommand(c, c.Flags().Args())
		}
		if *p.helpError == nil {
			help(c, g.args)
		}
	})
	command.Args = func(_ *cobra.Command, given []string) error { return g.take(given) }
	command.RunE = func(c *cobra.Command, _ []string) error { return p.Run(c.Context(), does, typedFlags(c.Flags())) }
	command.ValidArgsFunction = func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		return p.completions(c, does, g.args, given)
	}
	if err := p.completeFlags(command, does, g.flags); err != nil {
		return nil, err
	}
	if isGroup {
		command.ValidArgsFunction = nil
		command.Args = unknownCommand
		command.RunE = func(*cobra.Command, []string) error { return errors.New("expected a command") }
	}
	return command, nil
}

// completions returns the completions for the argument after the given ones.
func (p Program) completions(c *cobra.Command, does any, args []argument, given []string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0 || len(given) >= len(args) && args[len(args)-1].rest == nil:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.values(c, does, args[min(len(given), len(args)-1)].name, given)
}

// values returns what Complete knows of an argument or a flag.
func (p Program) values(c *cobra.Command, does any, argument string, given []string) ([]string, cobra.ShellCompDirective) {
	if p.Complete == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	// Errors are reported when the command line is complete.
	_ = completeFromEnviron(c.Flags())
	values, known := p.Complete(c.Context(), does, argument, given)
	if !known {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeFlags makes the shell complete the values of flags.
func (p Program) completeFlags(command *cobra.Command, does any, flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(flag *pflag.Flag) {
		v, declared := flag.Value.(*flagValue)
		if !declared || err != nil {
			return
		}
		err = command.RegisterFlagCompletionFunc(flag.Name, func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if v.allowed != nil {
				return slices.DeleteFunc(slices.Clone(v.allowed), isEmpty), cobra.ShellCompDirectiveNoFileComp
			}
			return p.values(c, does, "--"+flag.Name, given)
		})
	})
	return err
}

func hasCommands(declared reflect.Value) bool {
	for _, field := range reflect.VisibleFields(declared.Type()) {
		if _, is := field.Tag.Lookup("cmd"); is {
			return true
		}
	}
	return false
}

func (a argument) String() string {
	text := "<" + a.name + ">"
	if a.rest != nil {
		text += " ..."
	}
	if a.optional {
		text = "[" + text + "]"
	}
	return text
}

// take assigns the arguments to their fields.
func (g *grammar) take(given []string) error {
	for _, a := range g.args {
		switch {
		case len(given) == 0 && !a.optional:
			return fmt.Errorf("expected %s", a)
		case len(given) == 0:
		case a.rest != nil:
			*a.rest, given = given, nil
		default:
			a.one(given[0])
			given = given[1:]
		}
	}
	if len(given) > 0 {
		return fmt.Errorf("unexpected argument %s", given[0])
	}
	return nil
}

// typedFlags returns the flags that are set on the command line.
func typedFlags(flags *pflag.FlagSet) (all []Typed) {
	flags.Visit(func(flag *pflag.Flag) {
		v, declared := flag.Value.(*flagValue)
		if !declared || v.fromEnv {
			return
		}
		said := Typed{Name: flag.Name}
		for _, text := range v.texts {
			switch flag.NoOptDefVal {
			case "":
				said.Words = append(said.Words, "--"+flag.Name, text)
			case text:
				said.Words = append(said.Words, "--"+flag.Name)
			default:
				said.Words = append(said.Words, "--"+flag.Name+"="+text)
			}
		}
		all = append(all, said)
	})
	slices.SortFunc(all, func(a, b Typed) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// completeFromEnviron sets flags from the environment that are not on the command line. It then
// checks that required flags are set, and that exclusive flags are not set together.
func completeFromEnviron(flags *pflag.FlagSet) (err error) {
	typed := map[string]bool{} // xor groups with a flag on the command line
	flags.Visit(func(flag *pflag.Flag) {
		if v, declared := flag.Value.(*flagValue); declared && v.xor != "" {
			typed[v.xor] = true
		}
	})
	chosen := map[string]string{} // by xor group: what sets a flag
	fail := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		v, declared := flag.Value.(*flagValue)
		if !declared {
			return // the help flag
		}
		if text, any := os.LookupEnv(v.env); any && !flag.Changed && !typed[v.xor] && (text != "" || v.xor == "" && v.isText()) {
			v.fromEnv = true
			if wrong := flags.Set(flag.Name, text); wrong != nil {
				fail("$%s: %w", v.env, wrong)
			}
		}
		if v.required && !flag.Changed {
			fail("expected --%s", flag.Name)
		}
		if v.xor != "" && flag.Changed {
			if chosen[v.xor] != "" {
				fail("%s and %s can't be used together", chosen[v.xor], v.source(flag.Name))
			}
			chosen[v.xor] = v.source(flag.Name)
		}
	})
	return err
}
