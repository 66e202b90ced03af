package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// shownAgent is what is shown of an agent.
func shownAgent(t *testing.T, agent *pb.Agent) string {
	t.Helper()
	var out bytes.Buffer
	a := &app{Process: Process{Stdout: &out, Getenv: func(string) string { return "" }}}
	if err := a.printDefinition(&pb.GetAgentResponse{Agent: agent}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAllOfAnAgentIsShown: each field of the contract, or it is said here why not.
func TestAllOfAnAgentIsShown(t *testing.T) {
	t.Parallel()
	apart := map[protoreflect.Name]string{
		"definition": "what it says that no field does is shown, see below; all of it with --definition",
	}
	asWords := map[protoreflect.Name]string{
		"mode": "subagent", "background": "in the background", "fail_on_interrupt": "on_interrupt",
	}
	agent := &pb.Agent{}
	want := map[protoreflect.Name]string{}
	fields := agent.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name := field.Name()
		if apart[name] == "" {
			want[name] = orDefault(asWords[name], fill(t, agent.ProtoReflect(), field))
		}
	}
	got := shownAgent(t, agent)
	for name, text := range want {
		if !strings.Contains(got, text) {
			t.Errorf("%s is not shown: %q is not in\n%s", name, text, got)
		}
	}
}

// fill sets a field of a message to something, and gives what is to be seen of it.
func fill(t *testing.T, m protoreflect.Message, field protoreflect.FieldDescriptor) string {
	t.Helper()
	text, number := "some "+string(field.Name()), int32(700+field.Number())
	switch {
	case field.IsList() && field.Kind() == protoreflect.StringKind:
		m.Mutable(field).List().Append(protoreflect.ValueOfString(text))
		return text
	case field.IsList():
	case field.Kind() == protoreflect.StringKind:
		m.Set(field, protoreflect.ValueOfString(text))
		return text
	case field.Kind() == protoreflect.Int32Kind:
		m.Set(field, protoreflect.ValueOfInt32(number))
		return fmt.Sprint(number)
	case field.Kind() == protoreflect.BoolKind:
		m.Set(field, protoreflect.ValueOfBool(true))
		return "true"
	case field.Kind() == protoreflect.EnumKind:
		m.Set(field, protoreflect.ValueOfEnum(2))
		return string(field.Enum().Values().ByNumber(2).Name())
	case field.Kind() == protoreflect.MessageKind && field.Message().FullName() == "google.protobuf.Duration":
		inner := m.Mutable(field).Message()
		inner.Set(inner.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(59))
		return "59s"
	}
	t.Fatalf("how is the field %s filled?", field.Name())
	return ""
}

// TestAllOfADefinitionIsShown: what the fields of the contract say once, and all else by its keys,
// even one that this program does not know.
func TestAllOfADefinitionIsShown(t *testing.T) {
	t.Parallel()
	got := shownAgent(t, &pb.Agent{Name: "a", Definition: `---
name: "a"
description: "Everything."
timeout: "1m0s"
isolation: "worktree"
fork_context: true
compact_at: 50000
hooks: [{name: "one", event: "SubagentStop", command: ["sh", "-c", "make; true"]}, {name: "two", url: "http://x/y"}]
on_complete: "http://x/z"
permissions:
  mode: "accept_edits"
  allow: ["bash(git *)", "bash(make a, b)"]
  deny: ["read(**/.env)"]
approvals: "escalate"
background_tools: ["ls", "glob"]
tomorrow: ["more"]
---

isolation: of the prompt
`})
	for _, want := range []string{
		"isolation        worktree", "fork_context     true", "compact_at       50000",
		`hooks            name one; event SubagentStop; command sh, -c, "make; true"`, "hooks            name two; url http://x/y",
		"on_complete      http://x/z", `permissions      mode accept_edits; allow bash(git *), "bash(make a, b)"; deny read(**/.env)`,
		"approvals        escalate", "background_tools ls, glob", "tomorrow         more", "mode             unspecified",
	} {
		if !slices.Contains(strings.Split(got, "\n"), want) {
			t.Errorf("there is no line %q in\n%s", want, got)
		}
	}
	for _, no := range []string{"Everything.", "1m0s", "of the prompt"} { // the fields say these, and they are empty here
		if strings.Contains(got, no) {
			t.Errorf("%q is in\n%s", no, got)
		}
	}
	if got := shownAgent(t, &pb.Agent{Name: "a", Definition: "---\nname: [\n---\n"}); !strings.Contains(got, "definition can't be read here; --definition shows it") {
		t.Errorf("of a definition that is none is shown\n%s", got)
	}
}
