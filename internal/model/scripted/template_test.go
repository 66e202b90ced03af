package scripted_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/tree"
)

// conversation has two rounds: results of the first are not those of the second.
func conversation() *model.Request {
	return &model.Request{Agent: "me", Depth: 1, Model: "m", Tools: allTools(), Messages: []tree.Message{
		said("The prompt\nof all"),
		calls(used("ls", `{"path":"old"}`)), results(tree.ToolResult{Text: "old.txt"}),
		calls(tree.Text{Text: "Done."}),
		said("Once more"),
		calls(tree.Text{Text: "Well."}, used("ls", `{"path":"."}`), used("grep", `{"pattern":"^"}`), used("task", `{"prompt":"p"}`)),
		results(
			tree.ToolResult{Block: 1, Text: "a/\nb c/\nx.go\n[skipped: 1]\n[cut: more]"},
			tree.ToolResult{Block: 2, Text: "x.go:12\na/y:z.go:7"},
			tree.ToolResult{Block: 3, Text: `{"task_id":"t1","status":"failed","error":"bad luck","usage":{"input":5}}`, IsError: true},
		),
	}}
}

// TestEmptyResults: a result stands for its text, also where that is empty.
func TestEmptyResults(t *testing.T) {
	t.Parallel()
	req := &model.Request{Messages: []tree.Message{said("go"), calls(used("ls", `{}`), used("grep", `{}`)), results(tree.ToolResult{}, tree.ToolResult{Block: 1, Text: "a"})}}
	for source, want := range map[string]string{
		`steps: [{text: '{{default "none" (result "ls" 0)}} {{default "none" (result "grep" 0)}}'}]`: "none a",
		`steps: [{when: {if: 'result "ls" 0'}, text: some}, {text: none}]`:                           "none",
		`steps: [{when: {if: 'result "grep" 0'}, text: some}, {text: none}]`:                         "some",
	} {
		if got := text(t, parse(t, source), req); got != want {
			t.Errorf("%s: %q, not %q", source, got, want)
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`{{.Agent}} {{.Model}} {{.Depth}} {{.Turn}} {{.SinceUser}}`: "me m 1 4 2",
		`{{fields .Prompt | first 2 | join "+"}} / {{.User}}`:       "The+prompt / Once more",
		`{{lines .Last | len}}`:                                     "8",

		`{{result "grep" 0 | lines | join ","}}`:                                      "x.go:12,a/y:z.go:7",
		`{{(result "ls" 0).Input.path}} {{(result "ls" 0).Tool}}`:                     ". ls",
		`{{len (results "*")}} {{len (allResults "l?")}}`:                             "3 2",
		`{{len (results "none")}}`:                                                    "0",
		`{{(result "task" 0).IsError}} {{(index (results "task") 0).IsError}}`:        "true true",
		`{{(json (result "task" 0)).error}} {{(json (result "task" 0)).usage.input}}`: "bad luck 5",
		`{{toJSON (results "ls")}}`:                                                   `[{"Tool":"ls","Input":{"path":"."},"Text":"a/\nb c/\nx.go\n[skipped: 1]\n[cut: more]","IsError":false}]`,
		`{{get "nothing" (json (result "task" 0)) | default "-"}}`:                    "-",
		`{{get "no" (dict)}}{{get "no" "text"}}{{get "x" (json "{\"x\":null}")}}.`:    ".",
		`{{if get "no" (dict)}}a{{else}}b{{end}}{{or (get "no" (dict)) "c"}}{{with get "no" (dict)}}d{{end}}{{get "no" (dict) | eq "e"}}`: "bcfalse",
		`{{join "," (get "no" (dict))}}{{get "no" (dict) | pluck "x" | len}}{{range default list (get "no" (dict))}}a{{end}}`:             "0",
		`{{get "Tool" (result "ls" 0)}} {{get "x" (dict "x" 0)}}`:                                                                         "ls 0",
		`{{isJSON (result "ls" 0)}} {{isJSON (result "task" 0)}}`:                                                                         "false true",
		`{{hasTool "ls"}} {{hasTool "shell"}}`:                                                                                            "true false",

		`{{dirs (result "ls" 0) | join "|"}}`:                   "a|b c",
		`{{files (result "ls" 0) | join "|"}}`:                  "x.go",
		`{{entries (result "ls" 0) | len}}`:                     "3",
		`{{isCut (result "ls" 0)}} {{isCut (result "grep" 0)}}`: "true false",
		`{{entries "No files found" | len}} {{entries "No matches found" | len}} {{entries "The directory is empty" | len}}`: "0 0 0",

		`{{$c := records "(?m)^(?P<path>.+):(?P<n>[0-9]+)$" (result "grep" 0)}}{{sum "n" $c}} {{range top 1 "n" $c}}{{.path}}{{end}} {{pluck "path" (sort "n" $c) | join " "}}`: "19 x.go a/y:z.go x.go",
		`{{$c := records "(?P<p>[a-z.]+):" (result "grep" 0)}}{{keep "p" "^x" $c | len}} {{drop "p" "^x" $c | len}}`:                                                            "1 2",

		`{{pluck "Input" (results "l?") | pluck "path" | join ","}} {{pluck "Text" (keep "Tool" "^t" (results "*")) | len}}`:                                     ". 1",
		`{{range sort "Tool" (results "*")}}{{.Tool}} {{end}}{{range top 1 "Text" (results "*")}}{{.Tool}}{{end}} {{drop "IsError" "true" (results "*") | len}}`: "grep ls task task 2",

		`{{split "," "a,,b" | len}} {{join "-" (list 1 "x" true)}}`:                                                         "3 1-x-true",
		`{{sort (list "b" "a") | join ""}}{{sort (list 10 9 "8") | join ""}}{{sort (list "10" "9" "x") | join ""}}`:         "ab891010" + "9x",
		`{{top 2 (list 1 3 2) | join ""}}{{range top 2 "n" (list (dict "n" 1 "k" "a") (dict "n" 1 "k" "b"))}}{{.k}}{{end}}`: "32ab",
		`{{sum (list 1 "2" 3)}} {{sum (list)}}`:                                                                             "6 0",
		`{{tally "^([a-z]+)/" (list "a/1" "b/2" "a/3" "4") | pluck "n" | join ","}}`:                                        "2,1",
		`{{append (list 1) 2 3 | join ""}} {{numbers 3 | join ""}} {{first 9 (list 1) | len}}`:                              "123 123 1",
		`{{add 1 "2"}} {{sub 1 2}} {{mul 3 4}} {{div 7 2}} {{int " 8 "}}`:                                                   "3 -1 12 3 8",
		`{{trim "  x "}}{{lower "A"}}{{upper "b"}}{{replace "x" "yy" "axa"}}`:                                               "xaBayya",
		`{{trimPrefix "a" "abc"}}{{trimSuffix "c" "abc"}} {{contains "b" "abc"}}`:                                           "bcab true",
		`{{match "^a.c$" "abc"}} {{find "b(.)" "abc"}} {{find "b." "abc"}} {{find "z" "abc" | default "none"}}`:             "true c bc none",
		`{{shorten 4 "übergröße"}} {{shorten 9 "übergröße"}} {{base "a/b.go"}} {{dir "a/b.go"}}`:                            "übe… übergröße b.go a",
		`{{quoteRE "a.b"}} {{toJSON (dict "k" (list 1 "x"))}} {{printf "%03d %q" 7 "x"}} {{print 1 2}}`:                     `a\.b {"k":[1,"x"]} 007 "x" 1 2`,
		`{{eq (vary 10 20 "x") (vary 10 20 "x")}} {{vary 5 5 "y"}}`:                                                         "true 5",
		`{{var "twice"}} {{var "twice"}}`:                                                                                   "meme meme",
	} {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			m := parse(t, "vars: {twice: 'print .Agent .Agent'}\nsteps:\n- text: |-\n    "+template+"\n")
			if got := text(t, m, conversation()); got != want {
				t.Errorf("got %q, not %q", got, want)
			}
		})
	}
}

// What goes wrong while a scenario plays is an invalid request that names the line.
func TestTemplatesThatFail(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"steps:\n- text: |\n    one\n    {{result \"ls\" 3}}\n":                     `test.yaml:4: text: executing "text" at <result "ls" 3>: error calling result: no result 3 of "ls": there are 1 since the last user message`,
		"steps:\n- {text: '{{.Nope}}'}":                                             `test.yaml:2: text: executing "text" at <.Nope>: .Nope is no field; expected one of .Agent, .Model, `,
		"steps:\n- {text: '{{range results \"ls\"}}{{.Nope}}{{end}}'}":              "the value has no .Nope; a result has .Tool, .Input, .Text, .IsError",
		"steps:\n- {text: '{{.Prompt.Nope}}'}":                                      "at <.Prompt.Nope>: the value has no .Nope; a result has .Tool",
		"steps:\n- {text: '{{(dict).x}}'}":                                          "map has no entry for key",
		"steps:\n- {text: '{{group 1}}'}":                                           "the patterns of this step have no group 1",
		"steps:\n- {text: '{{var \"no\"}}'}":                                        `the scenario has no var "no"`,
		"vars: {a: 'var \"b\"', b: 'var \"a\"'}\nsteps:\n- {text: '{{var \"a\"}}'}": `test.yaml:1: var b: executing "var b" at <var "a">: error calling var: the var "a" needs itself`,
		"vars:\n  x: json \"{\"\nsteps:\n- {when: {if: var \"x\"}, text: x}":        `test.yaml:2: var x: executing "var x" at <json "{">: error calling json: expected JSON`,
		"steps:\n- {text: x, delay: '{{.Agent}}'}":                                  `test.yaml:2: delay: expected a duration such as "250ms" or "2s", got "me"`,
		"steps:\n- calls:\n  - {tool: x, for_each: .Agent}":                         "test.yaml:3: for_each: expected a list, got a string",
		"steps:\n- calls:\n  - {tool: x, for_each: list}":                           "test.yaml:2: the step matches, but neither its text nor its calls give anything",
		"steps:\n- calls:\n  - {tool: '{{\"\"}}'}":                                  "the name of the tool is empty",
		"steps:\n- calls:\n  - {tool: x, input: '[1]'}":                             "test.yaml:3: input: expected the template to put out a JSON object",
		"steps:\n- calls:\n  - {tool: x, input: 'null'}":                            "expected the template to put out a JSON object",
		"steps:\n- calls:\n  - {tool: x, for_each: numbers 10001}":                  "an answer has at most 10000 calls",
		"steps:\n- {text: '{{sum (list \"x\")}}'}":                                  `expected a whole number, got "x"`,
		"steps:\n- {text: '{{sum \"Size\" (results \"ls\")}}'}":                     `a result has no "Size"`,
		"steps:\n- {text: '{{pluck \"x\" (list 1.5)}}'}":                            `expected a record with "x", got 1.5`,
		"steps:\n- {text: '{{sum (results \"ls\")}}'}":                              "expected a whole number, got a result",
		"steps:\n- {text: '{{join \"\" true}}'}":                                    "expected a list, got true",
		"steps:\n- {text: '{{join \"\" .}}'}":                                       "expected a list, got something else",
		"steps:\n- {text: '{{div 1 0}}'}":                                           "division by zero",
		"steps:\n- {text: '{{lines (list)}}'}":                                      "expected text, got a list",
		"steps:\n- {text: '{{match \"(\" \"x\"}}'}":                                 "missing closing )",

		// None of these may take much memory.
		"steps:\n- {text: '{{range numbers 60000}}0123456789012345678901234567890123456789{{end}}'}":         "makes more than 1048576 bytes",
		"steps:\n- {text: '{{$x := \"xx\"}}{{range numbers 99}}{{$x = print $x $x}}{{end}}'}":                "makes more than",
		"steps:\n- {text: '{{$x := \"xx\"}}{{range numbers 99}}{{$x = replace \"x\" $x $x}}{{end}}'}":        "makes more than",
		"steps:\n- {text: '{{$x := \"xx\"}}{{range numbers 99}}{{$x = join $x (list 1 2 3)}}{{end}}'}":       "makes more than",
		"steps:\n- {text: '{{$x := list 1}}{{range numbers 99}}{{$x = list $x $x}}{{end}}{{$x}}'}":           "makes more than",
		"steps:\n- {text: '{{$x := dict}}{{range numbers 99}}{{$x = dict \"a\" $x \"b\" $x}}{{end}}{{$x}}'}": "makes more than",
		"steps:\n- {text: '{{$x := list}}{{range 99999999}}{{$x = append $x $x}}{{end}}{{$x}}'}":             "makes more than",
		"steps:\n- {text: '{{$x := \"\\\\\"}}{{range numbers 99}}{{$x = js $x}}{{end}}'}":                    "makes more than",
		"steps:\n- {text: '{{printf \"%999999d\" 1}}'}":                                                      "makes more than",
		"steps:\n- {text: '{{printf \"%*d\" 999999 1}}'}":                                                    "makes more than",
		"steps:\n- {text: '{{numbers 99999999}}'}":                                                           "numbers goes from 0 to 65536",
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, source).Generate(t.Context(), conversation(), nil)
			var refused *model.Error
			if !errors.As(err, &refused) || refused.Kind != model.ErrorInvalid || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, not %s", err, want)
			}
		})
	}
}

func TestScenariosThatAreWrong(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                             `t.yaml: the file is empty; expected a scenario with "steps"`,
		"# only a comment\n":           `t.yaml: the file is empty; expected a scenario with "steps"`,
		"just text":                    "t.yaml:1: expected a scenario, got a string",
		"about: x\nsteps: []":          `t.yaml:2: a scenario needs "steps", a list of what the model answers; it is empty`,
		"about: x":                     `t.yaml:1: a scenario needs "steps", a list of what the model answers`,
		"steps: 3":                     "t.yaml:1: expected a list of steps, got a number",
		"steps:\n- {txet: x}":          `t.yaml:2: a step has no "txet"; expected one of calls, delay, error, stop, stream, text, thinking, usage, when`,
		"step: []":                     `t.yaml:1: a scenario has no "step"; expected one of about, model, steps, stream, vars`,
		"steps:\n- {}":                 `t.yaml:2: a step answers with "text", "calls" or "error"; this one has none of them`,
		"steps:\n- text: x\n  text: y": `t.yaml:3: mapping key "text" already defined at [2:3]`,
		"steps:\n- text: 5":            "t.yaml:2: expected text, a text, got a number",
		"steps:\n- text:":              "t.yaml:2: expected text, a text, got nothing",
		"steps:\n- text: x\n  when:\n    agent: '['":                        `t.yaml:4: expected a name or a glob, got "[": syntax error in pattern`,
		"steps:\n- {text: x, when: {turn: x}}":                              `t.yaml:2: expected a number such as 3 or a range such as "2..4", "2.." or "..4", got "x"`,
		"steps:\n- {text: x, when: {turn: 4..2}}":                           `t.yaml:2: the range "4..2" is empty; expected the lower number first`,
		"steps:\n- {text: x, when: {depth: -1}}":                            "t.yaml:2: expected a number, a whole number from 0 to 1000000000",
		"steps:\n- {text: x, when: {last: (}}":                              "t.yaml:2: expected a regular expression (RE2): error parsing regexp: missing closing ): `(`",
		"steps:\n- {text: x, when: {last: '(?P<a>x)', prompt: '(?P<a>y)'}}": `t.yaml:2: the group "a" is there twice; expected names that differ`,
		"steps:\n- {text: x, when: {if: ''}}":                               "t.yaml:2: if: missing value for parenthesized pipeline",
		"steps:\n- {text: x, when: {if: 'a b'}}":                            `t.yaml:2: if: function "a" not defined`,
		"steps:\n- text: |\n    one\n    {{end}}":                           "t.yaml:4: text: unexpected {{end}}",
		"steps:\n- text: '{{define \"x\"}}{{end}}'":                         "t.yaml:2: text: define and block have no place in a scenario; use vars",
		"steps:\n- {text: x, delay: soon}":                                  `t.yaml:2: expected a duration such as "250ms" or "2s", got "soon"`,
		"steps:\n- {text: x, delay: -1s}":                                   `t.yaml:2: expected a duration such as "250ms" or "2s", got "-1s"`,
		"steps:\n- {text: x, stream: {chunk: 0}}":                           "t.yaml:2: expected how many characters come at once, a whole number from 1 to 1000000000",
		"steps:\n- {text: x, stop: tired}":                                  `t.yaml:2: "tired" is no stop reason; expected end_turn, tool_use, max_tokens or refusal`,
		"steps:\n- {text: x, usage: {input: 1.5}}":                          "t.yaml:2: expected a number of tokens, a whole number from 0 to 1000000000",
		"steps:\n- {error: {kind: odd}}":                                    `t.yaml:2: "odd" is no kind of error; expected rate_limited, overloaded, broken, invalid or auth`,
		"steps:\n- {error: {message: x}}":                                   `t.yaml:2: an error needs "kind"`,
		"steps:\n- {error: {kind: auth}, stop: end_turn}":                   `t.yaml:2: a step with "error" has no answer: leave out "calls", "usage" and "stop"`,
		"steps:\n- calls:\n  - {input: {}}":                                 `t.yaml:3: a call needs "tool", the name of the tool`,
		"steps:\n- calls:\n  - {tool: x, input: [1]}":                       "t.yaml:3: expected input, a mapping or a template that puts out JSON, got a list",
		"steps:\n- calls:\n  - {tool: x, input: {a: .inf}}":                 "t.yaml:3: expected a value that JSON has, got a number",
		"steps:\n- calls:\n  - {tool: x, input: {1: a}}":                    `t.yaml:3: expected a name as the key, got "1"`,
		"a: &x [1]\nb: *x":                                                  "t.yaml:1: anchors, aliases and merge keys have no place in a scenario; use vars",
		"steps:\n- text: !!binary x":                                        "t.yaml:2: tags and directives have no place in a scenario",
		"steps: [\n":                                                        "t.yaml:1: sequence end token ']' not found",
		"steps: []\n---\nsteps: []\n":                                       "t.yaml:3: a scenario is one YAML document; here a second one starts",
		"steps: " + strings.Repeat("[", 99_999):                             "t.yaml:1: the YAML is nested too deep",
		"steps:\n" + strings.Repeat("- ", 99_999):                           "t.yaml:2: the YAML is nested too deep",
		strings.Repeat("x", 1<<20):                                          "t.yaml: a scenario has at most 262144 bytes",
		strings.Repeat("x:\n", 20_000):                                      "t.yaml:10001: a scenario has at most 10000 keys",
		"steps: \xff":                                                       "t.yaml: a scenario is text in UTF-8",
	} {
		name := source
		if len(name) > 80 {
			name = name[:80]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := scripted.Parse("t.yaml", []byte(source)); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// FuzzParse checks that no file makes trouble: it is refused with its name, or
// it plays.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"steps: [{text: hi}]",
		"stream: {chunk: 3, every: 1ms}\nvars: {a: 'lines .Last'}\nsteps:\n- when: {agent: 'a*', turn: 1.., last: (x), if: var \"a\"}\n  text: |\n    {{.Prompt}}\n  calls:\n  - {tool: t, for_each: var \"a\", input: {a: [1, null, 'x{{.Item}}']}}",
		"steps:\n- error: {kind: broken, retry_after: 1s, times: 3}\n",
		"a: &a [*a]", "? - ? -", "{[{[", "- |+2\n", "%YAML 1.2\n---\n", "'", "\"\\x", "!!", "<<: {}", "a: >-\n\tb",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scripted.Parse("f.yaml", data)
		switch {
		case err == nil && s == nil:
			t.Fatal("neither a scenario nor an error")
		case err != nil && !strings.HasPrefix(err.Error(), "f.yaml"):
			t.Fatalf("the error names no file: %v", err)
		}
	})
}

// TestNews: what a turn hears of is its own, be it told between its messages or with the one
// that began it.
func TestNews(t *testing.T) {
	t.Parallel()
	told := func(task string) tree.Text {
		return tree.Text{Text: `{"task_id":"` + task + `","status":"completed","transcript":"t"}`}
	}
	user := func(blocks ...tree.Block) tree.Message { return tree.Message{Role: tree.RoleUser, Blocks: blocks} }
	req := &model.Request{Messages: []tree.Message{
		said("Go"), calls(tree.Text{Text: "Well."}), user(told("a")), calls(tree.Text{Text: "Done."}),
		user(told("b"), tree.Text{Text: "Once more"}), calls(tree.Text{Text: "Well."}), user(told("c")),
	}}
	m := parse(t, `steps: [{text: '{{range news}}{{get "task_id" (json .)}}{{end}} of {{range allNews}}{{get "task_id" (json .)}}{{end}}'}]`)
	if got := text(t, m, req); got != "bc of abc" {
		t.Errorf("heard %q, want %q", got, "bc of abc")
	}
	req.Messages = req.Messages[:4]
	if got := text(t, m, req); got != "a of a" {
		t.Errorf("heard in the first turn %q, want %q", got, "a of a")
	}
}
