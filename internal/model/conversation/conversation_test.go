package conversation_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/tree"
)

func user(texts ...string) tree.Message {
	m := tree.Message{Role: tree.RoleUser}
	for _, t := range texts {
		m.Blocks = append(m.Blocks, tree.Text{Text: t})
	}
	return m
}

func assistant(blocks ...tree.Block) tree.Message {
	return tree.Message{Role: tree.RoleAssistant, Blocks: blocks}
}

func tools(results ...tree.Block) tree.Message {
	return tree.Message{Role: tree.RoleTool, Blocks: results}
}

func use(id, input string) tree.ToolUse {
	return tree.ToolUse{ProviderID: id, Name: "ls", Input: json.RawMessage(input)}
}

// called is a call of a tool of a name, without an id.
func called(name string) tree.ToolUse { return tree.ToolUse{Name: name} }

func result(block int, text string) tree.ToolResult {
	return tree.ToolResult{Block: block, ProviderID: "whatever", Text: text}
}

// show writes turns in short: one line a turn.
func show(turns []conversation.Turn) string {
	var lines []string
	for _, t := range turns {
		line := "user:"
		if t.Role == tree.RoleAssistant {
			line = "assistant:"
		}
		for _, b := range t.Blocks {
			switch b := b.(type) {
			case tree.Text:
				line += fmt.Sprintf(" %q", b.Text)
			case tree.Thinking:
				line += fmt.Sprintf(" (%s)", b.Text)
			case tree.ToolUse:
				line += " " + b.ProviderID
				if b.Name != "ls" {
					line += "=" + b.Name
				} else {
					line += string(b.Input)
				}
			case tree.ToolResult:
				line += fmt.Sprintf(" %s=%s", b.ProviderID, b.Text)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestShape(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		messages []tree.Message
		want     string
	}{
		{"nothing", nil, ""},
		{"a question", []tree.Message{user("hi")}, `user: "hi"`},
		{
			"users in a row are one turn",
			[]tree.Message{user("a"), user("b", "c"), assistant(tree.Text{Text: "d"}), user("e")},
			"user: \"a\" \"b\" \"c\"\nassistant: \"d\"\nuser: \"e\"",
		},
		{
			"results come before the news after them",
			[]tree.Message{user("a"), assistant(tree.Thinking{Text: "hm"}, use("x", `{}`), use("y", ` {"p": 1} `)), tools(result(1, "r"), result(2, "s")), user("news")},
			"user: \"a\"\nassistant: (hm) x{} y{\"p\": 1}\nuser: x=r y=s \"news\"",
		},
		{
			"empty texts and messages are left out",
			[]tree.Message{user("a"), assistant(tree.Text{Text: " \n"}), user("", "b"), assistant(tree.Text{Text: ""}, use("x", "")), tools(result(1, ""))},
			"user: \"a\" \"b\"\nassistant: x{}\nuser: x=",
		},
		{
			"ids that repeat or that no provider takes are replaced",
			[]tree.Message{
				user("a"), assistant(use("x", "{}"), use("x", "{}"), use("a b", "{}"), use("", "{}")), tools(result(0, "0"), result(1, "1"), result(2, "2"), result(3, "3")),
				assistant(use("x", "{}"), use("call_1_1_0", "{}")), tools(result(1, "1"), result(0, "0")),
			},
			"user: \"a\"\nassistant: x{} call_1_1_0{} call_1_2_0{} call_1_3_0{}\nuser: x=0 call_1_1_0=1 call_1_2_0=2 call_1_3_0=3\n" +
				"assistant: call_3_0_0{} call_3_1_0{}\nuser: call_3_1_0=1 call_3_0_0=0",
		},
		{
			"an input that is no object is kept in one",
			[]tree.Message{user("a"), assistant(use("x", `{"p": `), use("y", `[1]`), use("z", "\"\x00")), tools(result(0, ""), result(1, ""), result(2, ""))},
			"user: \"a\"\nassistant: x{\"malformed\":\"{\\\"p\\\": \"} y{\"malformed\":\"[1]\"} z{\"malformed\":\"\\\"\\u0000\"}\nuser: x= y= z=",
		},
		{
			"names that no provider takes are made to fit",
			[]tree.Message{
				user("a"), assistant(called("multi_tool_use.parallel"), called("läs\n"), called(" "), called(""), called(strings.Repeat("n", 65)), called("mcp__a-b__C_1")),
				tools(result(0, ""), result(1, ""), result(2, ""), result(3, ""), result(4, ""), result(5, "")),
			},
			"user: \"a\"\nassistant: call_1_0_0=multi_tool_use_parallel call_1_1_0=l_s_ call_1_2_0=_ call_1_3_0=unknown call_1_4_0=" + strings.Repeat("n", 64) + " call_1_5_0=mcp__a-b__C_1\n" +
				"user: call_1_0_0= call_1_1_0= call_1_2_0= call_1_3_0= call_1_4_0= call_1_5_0=",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := show(conversation.Shape(test.messages)); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// TestWhatIsAddedChangesNothingBefore is what a prompt cache lives on.
func TestWhatIsAddedChangesNothingBefore(t *testing.T) {
	t.Parallel()
	all := []tree.Message{
		user("a"), assistant(use("x", "{}"), use("x", "{}")), tools(result(0, "0"), result(1, "1")), user("b"),
		assistant(tree.Text{Text: "c"}, use("x", "{}")), tools(result(1, "2")), assistant(tree.Text{Text: "d"}),
	}
	whole := show(conversation.Shape(all))
	for n := range all {
		if part := show(conversation.Shape(all[:n])); !strings.HasPrefix(whole, part) {
			t.Errorf("the first %d messages:\n%s\nare not how the whole begins:\n%s", n, part, whole)
		}
	}
}
