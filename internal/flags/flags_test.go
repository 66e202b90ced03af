package flags_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/flags"
)

// shared are flags that several commands have.
type shared struct {
	Where string `default:"here" placeholder:"HOST" help:"Where it is."`
}

type plant struct {
	shared
	Soil   soil              `embed:""`
	Kind   string            `enum:"oak,beech," default:"" help:"Which."`
	Deep   int               `default:"3" help:"How deep."`
	Labels map[string]string `help:"What it is called."`
	Near   []string          `help:"What is near."`
	Far    []string          `default:"sea,moor" help:"What is far."`
	Rules  []string          `sep:"none" help:"What it keeps to."`
	Wait   *time.Duration    `help:"How long to wait."`
	Shade  bool              `short:"s" xor:"light" help:"In the shade."`
	Sun    bool              `xor:"light" help:"In the sun."`
	Owner  string            `required:"" env:"PLANTED_BY" help:"Whose it is."`
	TLSKey string            `help:"Its key."`
	Place  string            `arg:"" help:"The place."`
	Words  []string          `arg:"" optional:"" help:"What to say."`
	Note   string            // without help it is no flag
}

type soil struct {
	Wet bool `help:"Whether it is wet."`
}

type fell struct {
	shared
	Name *string `arg:"" optional:"" help:"Which."`
	With *string `help:"With what."`
}

type list struct {
	Stumps bool   `help:"With stumps."`
	Order  string `enum:"age,height" default:"age" help:"By what."`
	Name   string `arg:"" optional:"" help:"Which."`
}

type trees struct {
	List list `cmd:"" default:"withargs" help:"List trees."`
	Fell fell `cmd:"" help:"Fell a tree."`
}

type forest struct {
	JSON  bool  `name:"json" help:"As JSON."`
	Plant plant `cmd:"" group:"Grow" help:"Plant a tree."`
	Trees trees `cmd:"" help:"What there is."`
	Tools struct {
		Saw fell `cmd:"" help:"Sharpen a saw."`
	} `cmd:"" help:"What is used."`
}

// typedFlags is what came of a command line.
type typedFlags struct {
	forest
	ran   any // the command
	typed []flags.Typed
	out   string
	err   error
	fail  error // of the command
}

func typing(t *testing.T, fail error, args ...string) *typedFlags {
	t.Helper()
	var out strings.Builder
	y := &typedFlags{fail: fail}
	y.err = flags.Program{
		Name: "forest", About: "Looks after trees.", Envs: "FOREST_", Stdout: &out, Stderr: &out,
		Run: func(_ context.Context, command any, typed []flags.Typed) error {
			y.ran, y.typed = command, typed
			return y.fail
		},
	}.Main(t.Context(), &y.forest, args)
	y.out = out.String()
	return y
}

func TestCommandLine(t *testing.T) {
	t.Setenv("PLANTED_BY", "env")
	t.Setenv("FOREST_NEAR", "brook, road")
	t.Setenv("FOREST_DEEP", "5")
	wait := 90 * time.Second
	said := typing(t, nil, "plant", "hill", "--near", "a, b", "--near=c", "--far", "fen", "--rules", "x, y", "--rules=z", "-s", "--json", "--labels", "k=v",
		"--wait", "90s", "--tls-key", "k", "--wet", "--kind=oak", "grow", "--", "--tall")
	want := plant{
		shared: shared{Where: "here"}, Soil: soil{Wet: true}, Kind: "oak", Deep: 5, Labels: map[string]string{"k": "v"}, Near: []string{"a", "b", "c"}, Far: []string{"fen"},
		Rules: []string{"x, y", "z"}, Wait: &wait, Shade: true, Owner: "env", TLSKey: "k", Place: "hill", Words: []string{"grow", "--tall"},
	}
	if said.err != nil || !reflect.DeepEqual(said.Plant, want) || !said.JSON || said.ran != any(&said.Plant) {
		t.Errorf("typed is %+v, %v; want %+v", said.Plant, said.err, want)
	}
	words := []flags.Typed{
		{Name: "far", Words: []string{"--far", "x,y", "--far", "-z"}}, {Name: "json", Words: []string{"--json"}},
		{Name: "shade", Words: []string{"--shade=false"}}, {Name: "where", Words: []string{"--where", "here"}},
	}
	said = typing(t, nil, "plant", "hill", "--far=x,y", "--where=here", "--json", "--far", "-z", "-s=false")
	if !reflect.DeepEqual(said.typed, words) {
		t.Errorf("typed is %q, want %q", said.typed, words)
	}
	if said = typing(t, nil, "plant", "hill"); said.err != nil || !reflect.DeepEqual(said.Plant.Near, []string{"brook", "road"}) || !reflect.DeepEqual(said.Plant.Far, []string{"sea", "moor"}) || said.Plant.Wait != nil {
		t.Errorf("what the environment says: %+v, %v", said.Plant, said.err)
	}
	t.Setenv("FOREST_NEAR", "brook,\n  road\n\nmill\n")
	if said = typing(t, nil, "plant", "hill"); said.err != nil || !reflect.DeepEqual(said.Plant.Near, []string{"brook", "road", "mill"}) {
		t.Errorf("a variable with several lines: %+v, %v", said.Plant.Near, said.err)
	}
	for _, text := range []string{"brook,", " brook ,, ", ",brook\n"} { // an empty path would be the current directory
		if said = typing(t, nil, "plant", "hill", "--near", text, "--near", " "); said.err != nil || !slices.Equal(said.Plant.Near, []string{"brook"}) {
			t.Errorf("the list %q has %q, %v", text, said.Plant.Near, said.err)
		}
	}
	labels := map[string]string{"of": "a=1,b=2", "is": `"old"`, "was": ""}
	if said = typing(t, nil, "plant", "hill", "--labels", "of=a=1,b=2", "--labels", `is="old"`, "--labels=was="); said.err != nil || !reflect.DeepEqual(said.Plant.Labels, labels) {
		t.Errorf("pairs are %q, %v; want %q", said.Plant.Labels, said.err, labels)
	}
	if said = typing(t, nil, "trees", "oak", "--stumps"); said.err != nil || said.ran != any(&said.Trees.List) || said.Trees.List != (list{true, "age", "oak"}) {
		t.Errorf("the command that stands for the one above it: %+v, %v", said.Trees, said.err)
	}
	if said = typing(t, nil, "trees", "fell"); said.err != nil || said.Trees.Fell.Name != nil || said.Trees.Fell.With != nil {
		t.Errorf("texts that are not said: %+v, %v", said.Trees.Fell, said.err)
	}
	if said = typing(t, nil, "trees", "fell", "", "--with", "saw"); said.err != nil || said.Trees.Fell.Name == nil || *said.Trees.Fell.Name != "" || *said.Trees.Fell.With != "saw" {
		t.Errorf("texts that are said: %+v, %v", said.Trees.Fell, said.err)
	}
	if said = typing(t, nil, "trees", "fell", "--json", "--where", "there"); said.err != nil || said.ran != any(&said.Trees.Fell) || said.Trees.Fell.Where != "there" || !said.JSON {
		t.Errorf("a command below another: %+v, %v", said.Trees, said.err)
	}
}

// TestAnEmptyVariable is a text, and says nothing of a number, a duration or a condition, nor of
// what can't be empty.
func TestAnEmptyVariable(t *testing.T) {
	for _, name := range []string{"PLANTED_BY", "FOREST_DEEP", "FOREST_WAIT", "FOREST_WET", "FOREST_TLS_KEY", "FOREST_WHERE", "FOREST_KIND", "FOREST_ORDER", "FOREST_RULES"} {
		t.Setenv(name, "")
	}
	said := typing(t, nil, "plant", "hill")
	want := plant{Deep: 3, Far: []string{"sea", "moor"}, Place: "hill"}
	if said.err != nil || !reflect.DeepEqual(said.Plant, want) {
		t.Errorf("typed is %+v, %v; want %+v", said.Plant, said.err, want)
	}
	if said = typing(t, nil, "trees"); said.err != nil || said.Trees.List.Order != "age" {
		t.Errorf("typed is %+v, %v", said.Trees.List, said.err)
	}
}

func TestMistakes(t *testing.T) {
	t.Setenv("FOREST_STUMPS", "many")
	for line, want := range map[string]string{
		"":                           "expected a command",
		"burn":                       "there is no command burn",
		"plnt":                       "there is no command plnt; did you mean plant?",
		"plant --owner me":           "expected <place>",
		"plant hill":                 "expected --owner",
		"plant hill --tall":          "unknown flag: --tall",
		"plant hill --deep x":        `invalid argument "x" for "--deep" flag: expected a whole number`,
		"plant hill --ownr me":       "unknown flag: --ownr; did you mean --owner?",
		"plant hill --wett":          "unknown flag: --wett; did you mean --wet or --wait?",
		"plant hill --kind=elm":      "it has to be one of oak, beech",
		"plant hill --wait 3":        "missing unit in duration",
		"plant hill --labels k":      "k must be formatted as key=value",
		"tools":                      "expected a command",
		"tools sow":                  "there is no command sow; did you mean saw?",
		"tools sow --help":           "there is no command sow; did you mean saw?",
		"burn --help":                "there is no command burn",
		"--json burn -h":             "there is no command burn",
		"help burn":                  "there is no command burn",
		"help tools sow":             "there is no command sow; did you mean saw?",
		"trees fell a b":             "unexpected argument b",
		"trees":                      "$FOREST_STUMPS: invalid argument \"many\" for \"--stumps\" flag: expected true or false",
		"plant x --owner m -s --sun": "--shade and --sun can't be used together",
	} {
		var usage *flags.UsageError
		said := typing(t, nil, strings.Fields(line)...)
		if !errors.As(said.err, &usage) || !strings.Contains(usage.Error(), want) || said.ran != nil {
			t.Errorf("forest %s: %v, want a mistake with %q", line, said.err, want)
		}
	}
	for line, want := range map[string]string{
		"burn": "forest", "burn --help": "forest", "plant hill": "forest plant", "tools sow": "forest tools", "trees fell a b": "forest trees fell", "plant hill --tall": "forest plant",
	} {
		var usage *flags.UsageError
		if said := typing(t, nil, strings.Fields(line)...); !errors.As(said.err, &usage) || usage.Command != want {
			t.Errorf("forest %s: %v, want a mistake of %s", line, said.err, want)
		}
	}
	for _, text := range []string{"- an oak", "-v is no flag", "--shade is what it gives", "-\nan oak"} {
		if said := typing(t, nil, "plant", "hill", "--owner", "me", text); said.err == nil || !strings.HasSuffix(said.err.Error(), "; put -- before a text that begins with a dash") {
			t.Errorf("the text %q: %v", text, said.err)
		}
		if said := typing(t, nil, "plant", "hill", "--owner", "me", "--", text); said.err != nil || !reflect.DeepEqual(said.Plant.Words, []string{text}) {
			t.Errorf("the text %q after --: %q, %v", text, said.Plant.Words, said.err)
		}
	}
	var usage *flags.UsageError
	burnt := errors.New("burnt")
	if said := typing(t, burnt, "trees", "fell"); !errors.Is(said.err, burnt) || errors.As(said.err, &usage) {
		t.Errorf("the failure of a command is %v", said.err)
	}
}

// TestOneOfSeveral: what is typed goes before what the environment says, also of the others.
func TestOneOfSeveral(t *testing.T) {
	for name, test := range map[string]struct {
		environ    []string
		line       string
		shade, sun bool
		wrong      string
	}{
		"typed, another in the environment": {[]string{"FOREST_SUN"}, "-s", true, false, ""},
		"typed, both in the environment":    {[]string{"FOREST_SHADE", "FOREST_SUN"}, "--sun", false, true, ""},
		"in the environment":                {[]string{"FOREST_SUN"}, "", false, true, ""},
		"both in the environment":           {[]string{"FOREST_SHADE", "FOREST_SUN"}, "", true, true, "$FOREST_SHADE and $FOREST_SUN can't be used together"},
		"both typed":                        {nil, "-s --sun", true, true, "--shade and --sun can't be used together"},
		"one of them empty":                 {[]string{"FOREST_SHADE=", "FOREST_SUN"}, "", false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range test.environ {
				name, empty := strings.CutSuffix(variable, "=")
				t.Setenv(name, map[bool]string{false: "true"}[empty])
			}
			said := typing(t, nil, strings.Fields("plant hill --owner me "+test.line)...)
			if said.Plant.Shade != test.shade || said.Plant.Sun != test.sun {
				t.Errorf("shade %t, sun %t", said.Plant.Shade, said.Plant.Sun)
			}
			if got := fmt.Sprint(said.err); said.err == nil && test.wrong != "" || said.err != nil && got != test.wrong {
				t.Errorf("%s, want %q", got, test.wrong)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"--help": {
			"Usage: forest <command> [flags]\n\nLooks after trees.\n\nGrow:\n  plant       Plant a tree.\n\nOther commands:\n  trees       What there is.\n  tools       What is used.\n",
			"      --version   Show the version.\n", "  -h, --help      Show this.\n", "As JSON. ($FOREST_JSON)\n",
		},
		"--version": {"forest version "},
		"plant --help": {
			"Usage: forest plant <place> [<words> ...] [flags]\n\nPlant a tree.\n\n" +
				"Arguments:\n  <place>        The place.\n  [<words> ...]  What to say.\n\nFlags:\n      --where HOST",
			`Where it is. ($FOREST_WHERE) (default here)`, "How deep. ($FOREST_DEEP) (default 3)", "-s, --shade", "($PLANTED_BY)\n",
		},
		"trees -h":         {"Usage: forest trees <command> [<name>] [flags]\n", "\nCommands:\n  list  List trees.\n", "With stumps."},
		"trees oak --help": {"Usage: forest trees <command> [<name>] [flags]\n"},
		"help":             {"Usage: forest <command> [flags]\n"},
		"help trees fell":  {"Usage: forest trees fell [<name>] [flags]\n"},
	} {
		said := typing(t, nil, strings.Fields(line)...)
		if said.err != nil || said.ran != nil {
			t.Errorf("forest %s: %v", line, said.err)
		}
		for _, part := range want {
			if !strings.Contains(said.out, part) {
				t.Errorf("forest %s lacks %q:\n%s", line, part, said.out)
			}
		}
	}
}

func TestWhatCanBeNoFlag(t *testing.T) {
	t.Parallel()
	for want, declared := range map[string]any{
		"no flag can be a chan int": &struct {
			C chan int `help:"What."`
		}{},
		"an argument is a text": &struct {
			N int `arg:""`
		}{},
		"the default": &struct {
			N int `default:"x" help:"What."`
		}{},
	} {
		if err := (flags.Program{Name: "x"}).Main(t.Context(), declared, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", declared, err, want)
		}
	}
}

// TestWhatShellsAreOffered: what the program knows of the argument that is next, with the flags
// and the environment of the line; nothing where no argument is expected, and files where the
// program doesn't know.
func TestWhatShellsAreOffered(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                       "oak at here\ta tree\n:36\n",
		"--where there":          "oak at there\ta tree\n:36\n",
		"oak":                    ":0\n",
		"oak some words and":     ":0\n",
		"--owner me --where far": "oak at far\ta tree\n:36\n",
		"--kind":                 "oak\nbeech\n:4\n",
		"oak --owner":            "by oak\n:36\n",
	} {
		var out strings.Builder
		p := flags.Program{
			Name: "plant", Stdout: &out, Stderr: io.Discard,
			Run: func(context.Context, any, []flags.Typed) error { t.Error("it was run"); return nil },
			Complete: func(_ context.Context, command any, argument string, given []string) ([]string, bool) {
				if argument == "--owner" {
					return []string{"by " + given[0]}, true
				}
				return []string{"oak at " + command.(*plant).Where + "\ta tree"}, argument == "place" && len(given) == 0
			},
		}
		args := append(append([]string{"__complete"}, strings.Fields(line)...), "")
		if err := p.Main(t.Context(), &plant{}, args); err != nil || out.String() != want {
			t.Errorf("%q: offered %q, %v, want %q", line, out.String(), err, want)
		}
	}
}
