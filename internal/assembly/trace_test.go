package assembly_test

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/proctest"
)

// clientSpan is the span of the client that starts the tree.
const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

// heldTree is a tree of depth 3 and 15 tasks. Its leaves say that they are at work, and
// go on when there is a file that lets them.
const heldTree = `
vars: {stands: 'list "north stand" "south stand"', trees: 'list "oak" "hazel"', works: 'list "count" "measure"'}
steps:
  - when: {turn: 1, depth: 0}
    delay: 250ms
    usage: {cache_read: 11, cache_write: 5}
    calls: [{tool: task, for_each: var "stands", input: {description: 'the {{.Item}}', prompt: 'Survey the {{.Item}}.', subagent_type: general-purpose}}]
  - when: {turn: 1, depth: 1}
    delay: '{{vary 150 350 .Prompt}}ms'
    calls: [{tool: task, for_each: var "trees", input: {description: '{{.Item}}', prompt: 'Survey each {{.Item}}. {{$.Prompt}}', subagent_type: general-purpose}}]
  - when: {turn: 1, depth: 2}
    delay: '{{vary 150 350 .Prompt}}ms'
    calls: [{tool: task, for_each: var "works", input: {description: '{{.Item}}', prompt: '{{.Item}}: {{$.Prompt}}', subagent_type: general-purpose}}]
  - {when: {depth: 0..2}, delay: '{{vary 200 400 .Prompt}}ms', text: 'surveyed {{len (results "task")}}'}
  - when: {turn: 1}
    delay: '{{vary 150 400 .Prompt}}ms'
    calls: [{tool: bash, input: {command: 'echo at work > arrivals; while [ ! -e go ]; do sleep 0.05; done', description: 'wait for leave'}}]
  - {delay: '{{vary 200 500 .Prompt}}ms', text: done}
`

// heldLeaves is how many leaves the tree has. Two workers carry so many at once.
const heldLeaves = 8

// TestATreeIsOneTrace runs a tree on two workers of which one is killed in mid-run: it
// is one trace below the client's span, each run and each call that asked for one
// stands in it once and in its place, and the lost attempts stand there too.
func TestATreeIsOneTrace(t *testing.T) {
	t.Parallel()
	var sinks sync.Map // by deployment
	onBoth(t, heldTree, func(d *deployment) {
		sink := otlptest.Start(d.t)
		sinks.Store(d, sink)
		d.environ = map[string][]string{"": {"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.Endpoint(), "OTEL_METRIC_EXPORT_INTERVAL=500"}}
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		ctx := metadata.AppendToOutgoingContext(c.ctx(), "traceparent", "00-"+clientTrace+"-"+clientSpan+"-01")
		arrivals := proctest.OpenLines(t, d.in("arrivals"))
		opened, err := c.CreateSession(ctx, &pb.CreateSessionRequest{
			Message: &pb.UserMessage{Text: "Survey the wood."}, Permissions: &pb.Permissions{Mode: pb.PermissionMode_PERMISSION_MODE_BYPASS},
		})
		if err != nil {
			t.Fatal(err)
		}
		session := opened.GetSession().GetId()
		for range heldLeaves {
			arrivals.Next()
		}
		d.kill("worker 1") // which has half of them
		d.write("go", "")
		c.wait(session, "")
		tasks := c.tasks(session)
		sink, _ := sinks.Load(d)
		spans := sink.(*otlptest.Sink).Until("all runs, and whatever hangs above what came", func(spans []otlptest.Span) bool {
			return len(named(spans, "invoke_agent ")) >= len(tasks) && len(orphans(spans, clientSpan)) == 0
		})
		checkTrace(t, c, session, spans, clientTrace, clientSpan)
		if lost := named(spans, "attempt lost"); len(lost) == 0 || !lost[0].Failed || lost[0].Texts["coppice.worker.id"] == "" {
			t.Errorf("the attempts that were lost: %+v", lost)
		}
	})
}

// checkTrace holds a trace against the tree that it is of. above is what the root hangs
// below.
func checkTrace(t *testing.T, c *client, session string, spans []otlptest.Span, trace, above string) {
	t.Helper()
	byID := map[string]otlptest.Span{}
	for _, s := range spans {
		if s.Trace != trace {
			t.Errorf("span %q is in the trace %s", s.Name, s.Trace)
		}
		if before, twice := byID[s.ID]; twice {
			t.Errorf("span %s came twice: %q and %q", s.ID, before.Name, s.Name)
		}
		byID[s.ID] = s
	}
	runs := map[string]otlptest.Span{} // by task
	for _, s := range named(spans, "invoke_agent ") {
		runs[s.Texts["coppice.task.id"]] = s
	}
	for _, task := range c.tasks(session) {
		run, ok := runs[task.GetId()]
		if !ok {
			t.Errorf("task %s has no span", task.GetId())
			continue
		}
		if task.GetParentId() == "" {
			if run.Parent != above {
				t.Errorf("the root hangs below %s", run.Parent)
			}
			continue
		}
		call := byID[run.Parent]
		if call.Name != "execute_tool task" || call.Parent != runs[task.GetParentId()].ID {
			t.Errorf("the run of %s hangs below %q, and that below %q", task.GetId(), call.Name, byID[call.Parent].Name)
		}
	}
	if input, output := used(named(spans, "invoke_agent ")); !c.hasUsed(session, input, output) {
		t.Errorf("the runs have used %d and %d tokens, the tree did not", input, output)
	}
	for _, s := range append(named(spans, "chat"), named(spans, "execute_tool bash")...) {
		if parent := byID[s.Parent]; !strings.HasPrefix(parent.Name, "invoke_agent ") || parent.Texts["coppice.task.id"] != s.Texts["coppice.task.id"] {
			t.Errorf("%q with %v hangs below %q with %v", s.Name, s.Texts, parent.Name, parent.Texts)
		}
	}
}

// used sums up what spans have used.
func used(spans []otlptest.Span) (input, output int64) {
	for _, s := range spans {
		input += s.Numbers["gen_ai.usage.input_tokens"]
		output += s.Numbers["gen_ai.usage.output_tokens"]
	}
	return input, output
}

// hasUsed says whether that is what a tree has used, and not nothing. The input of spans
// is all of it, from a cache or not.
func (c *client) hasUsed(session string, input, output int64) bool {
	c.t.Helper()
	resp, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: session})
	if err != nil {
		c.t.Fatal(err)
	}
	u := resp.GetSession().GetUsage()
	cached := u.GetCacheReadTokens() + u.GetCacheWriteTokens()
	return input == u.GetInputTokens()+cached && output == u.GetOutputTokens() && input > 0 && cached > 0
}

// named gives the spans whose names begin with a text.
func named(spans []otlptest.Span, start string) []otlptest.Span {
	var out []otlptest.Span
	for _, s := range spans {
		if strings.HasPrefix(s.Name, start) {
			out = append(out, s)
		}
	}
	return out
}

// orphans gives the spans whose parents have not come, and are not what the root
// hangs below.
func orphans(spans []otlptest.Span, above string) []otlptest.Span {
	known := map[string]bool{above: true}
	for _, s := range spans {
		known[s.ID] = true
	}
	var out []otlptest.Span
	for _, s := range spans {
		if !known[s.Parent] {
			out = append(out, s)
		}
	}
	return out
}
