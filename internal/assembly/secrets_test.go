package assembly_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tree"
)

// Secrets that the workers know, and that the orchestrators know.
const (
	workersKey      = "sk-ant-api03-AbC/dEf+GhI=jKlMn_oPq-RsT"
	workersSecret   = `odd"secret\with/all of=it&more%`
	orchestratorsPW = "pass/word+of=the&database"
)

// planted gives a secret in forms, each in a line of its own with what it is beside it.
func planted(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	var partly strings.Builder
	for i, c := range []byte(secret) {
		if i%2 == 0 || c == '%' {
			fmt.Fprintf(&partly, "%%%02x", c)
		} else {
			partly.WriteByte(c)
		}
	}
	return []string{
		secret, string(quoted), url.QueryEscape(secret), partly.String(),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(":" + secret)),
		base64.RawStdEncoding.EncodeToString([]byte("u:" + secret)),
	}
}

// marker stands beside the secrets, so that it is known that they were looked for
// where they would have been.
const marker = "an-oak-stands-here"

func plantedText(secret string) string {
	return marker + "\n" + strings.Join(planted(secret), "\n") + "\n"
}

// leaky is a model that tells what it should not, byte by byte, once somebody watches:
// what is said before is in no delta that anybody sees.
type leaky struct {
	page    string
	watched <-chan struct{}
}

func (l leaky) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	select {
	case <-l.watched:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	text := plantedText(workersKey) + plantedText(workersSecret)
	answer := &model.Answer{Model: "leaky", Stop: tree.StopEndTurn, Usage: tree.Usage{Input: 1, Output: 1}}
	if req.Depth == 0 && req.Messages[len(req.Messages)-1].Role == tree.RoleUser {
		answer.Blocks = append(answer.Blocks, tree.Thinking{Text: text, Signature: "sealed"})
	}
	answer.Blocks = append(answer.Blocks, tree.Text{Text: text})
	if len(req.Messages) == 1 && req.Depth == 0 {
		answer.Stop = tree.StopToolUse
		for i, call := range []struct {
			name  string
			input map[string]any
		}{
			{"read", map[string]any{"path": "secrets.txt"}},
			{"grep", map[string]any{"pattern": ".", "path": "secrets.txt", "output_mode": "content"}},
			{"web_fetch", map[string]any{"url": l.page}},
			{"ls", map[string]any{"path": workersKey}},
			{"read", map[string]any{"path": "x", text: text}},
			{workersKey, map[string]any{"a": []string{text}}},
			{"task", map[string]any{"description": marker + workersKey, "prompt": "refuse " + text, "subagent_type": "explore"}},
			{"task", map[string]any{
				"description": "quiet", "prompt": text, "subagent_type": "explore", "context_files": []string{"secrets.txt"},
			}},
		} {
			input, err := json.Marshal(call.input)
			if err != nil {
				return nil, err
			}
			answer.Blocks = append(answer.Blocks, tree.ToolUse{ProviderID: fmt.Sprint("call_", i), Name: call.name, Input: input})
		}
	}
	for _, b := range answer.Blocks {
		switch b := b.(type) {
		case tree.Thinking:
			pieces(b.Text, func(piece string) { emit(model.Delta{Text: piece, Thinking: true}) })
		case tree.Text:
			pieces(b.Text, func(piece string) { emit(model.Delta{Text: piece}) })
		}
	}
	return answer, nil
}

func pieces(text string, yield func(string)) {
	for i := range text {
		yield(text[i : i+1])
	}
}

// refusing refuses sub-agents that are asked to refuse, and says with which key.
func refusing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if r.Header.Get(upstream.HeaderDepth) == "1" && strings.Contains(string(body), "refuse ") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","message":"%s: invalid x-api-key %s"}}`, marker, r.Header.Get("X-Api-Key"))
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	})
}

// TestSecretsStayOut: what a model, a tool, a page, a file, a hook, a provider and a
// client say of secrets is in no database, event, delta, transcript, trace or log.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	var sinks, watches sync.Map // of deployments
	onBoth(t, "steps: [{text: x}]", func(d *deployment) {
		sink := otlptest.Start(d.t)
		sinks.Store(d, sink)
		watched := make(chan struct{})
		watches.Store(d, watched)
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, plantedText(workersSecret))
		}))
		d.t.Cleanup(page.Close)
		provider := httptest.NewServer(refusing(fakellm.New(fakellm.Config{Model: leaky{page.URL, watched}})))
		d.t.Cleanup(provider.Close)
		d.write("secrets.txt", plantedText(workersKey)+plantedText(workersSecret),
			"agents/spy.md", "---\nname: spy\ndescription: \""+marker+" "+orchestratorsPW+"\"\nmode: subagent\n---\n"+plantedText(orchestratorsPW),
			"agents/broken.md", "---\nname: broken\ndescription: d\nmode: \""+marker+" "+orchestratorsPW+"\"\n---\nYou break.\n",
			"hooks.yaml", "hooks:\n- {name: tells, event: SubagentStart, command: [cat, secrets.txt]}\n")
		d.asks = true
		d.environ = map[string][]string{
			"": {
				"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.Endpoint(), "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
			},
			"worker":       {"ANTHROPIC_API_KEY=" + workersKey, "ANTHROPIC_BASE_URL=" + provider.URL, "ODD=" + workersSecret},
			"orchestrator": {"ANOTHER_URL=postgres://u:" + url.QueryEscape(orchestratorsPW) + "@h/d"},
		}
		d.workerFlags = []string{"--fetch-allow", "127.0.0.1", "--redact-env", "ODD", "--hooks", d.in("hooks.yaml")}
		d.orchestratorFlags = []string{"--agents-dir", d.in("agents")}
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.plantAll()
		found := &seen{t: t, places: map[string]string{}}
		watched, _ := watches.Load(d)
		d.watchAll(session, found, watched.(chan struct{}))
		for _, task := range c.tasks(session) {
			found.message("task", task)
			for _, m := range c.transcript(session, task.GetId()) {
				found.message("transcript", m)
			}
		}
		agents, err := c.ListAgents(c.ctx(), &pb.ListAgentsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		found.message("agents", agents)
		found.add("database", d.stored(t))
		ended := 0
		for _, task := range c.tasks(session) {
			if task.GetState() >= pb.TaskState_TASK_STATE_COMPLETED {
				ended++
			}
		}
		sink, _ := sinks.Load(d)
		for _, span := range sink.(*otlptest.Sink).Until("all that hangs in traces", func(spans []otlptest.Span) bool {
			return len(named(spans, "chat")) > ended && len(named(spans, "invoke_agent ")) >= ended
		}) {
			found.add("trace", fmt.Sprint(span))
		}
		found.add("logs", d.logs.String())
		found.check("event", "delta", "transcript", "task", "agents", "database", "logs", "trace")
		c.sound()
	})
}

// plantAll says secrets of the orchestrators wherever a client can say something, and
// gives the session.
func (c *client) plantAll() string {
	c.t.Helper()
	metadata := map[string]string{}
	for i, form := range planted(orchestratorsPW) {
		metadata[fmt.Sprint("form ", i)] = form
	}
	metadata[orchestratorsPW] = marker
	created, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
		Title: marker + orchestratorsPW, Metadata: metadata, Message: &pb.UserMessage{Text: plantedText(orchestratorsPW)},
		IdempotencyKey: orchestratorsPW,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	session := created.GetSession().GetId()
	if _, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{
		SessionId: session, Agent: "explore", Prompt: plantedText(orchestratorsPW), Description: orchestratorsPW,
		Context: []string{plantedText(orchestratorsPW)},
	}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: session, Title: marker + url.QueryEscape(orchestratorsPW)}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.PutAgent(c.ctx(), &pb.PutAgentRequest{
		Definition: "---\nname: mole\ndescription: d\nmode: subagent\n---\n" + plantedText(orchestratorsPW),
	}); err != nil {
		c.t.Fatal(err)
	}
	_, err = c.GetTask(c.ctx(), &pb.GetTaskRequest{SessionId: session, TaskId: orchestratorsPW})
	if text := status.Convert(err).Message(); err == nil || strings.Contains(text, orchestratorsPW) {
		c.t.Errorf("a wrong request was answered with %q", text)
	}
	return session
}

// watchAll takes in all events and deltas until nothing happens any more, at each replica:
// the one that the worker speaks to gives all deltas, others what they have asked for in
// time. It closes watched when all of them are given what comes.
func (d *deployment) watchAll(session string, found *seen, watched chan struct{}) {
	d.t.Helper()
	var begun, over sync.WaitGroup
	begun.Add(len(d.addresses))
	steps := make([][]*pb.WatchSessionResponse, len(d.addresses))
	for i, address := range d.addresses {
		conn, err := assembly.Connect(address)
		if err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() { conn.Close() })
		c := newClient(d.t, conn)
		over.Go(func() { steps[i] = c.stepsOf(session, begun.Done) })
	}
	begun.Wait()
	close(watched)
	over.Wait()
	deltas := map[string]string{}
	for _, resp := range slices.Concat(steps...) {
		found.message("event", resp)
		if delta := resp.GetDelta(); delta != nil {
			deltas[delta.GetTaskId()] += delta.GetText()
		}
	}
	for _, text := range deltas {
		found.add("delta", text)
	}
}

// stepsOf watches a session until it is idle, and says when it has been given the first
// step.
func (c *client) stepsOf(session string, begun func()) (steps []*pb.WatchSessionResponse) {
	begin := sync.OnceFunc(begun)
	defer begin()
	stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, IncludeDeltas: true, UntilIdle: true})
	for err == nil {
		var resp *pb.WatchSessionResponse
		if resp, err = stream.Recv(); err == nil {
			steps = append(steps, resp)
			begin()
		}
	}
	if !errors.Is(err, io.EOF) {
		c.t.Error(err)
	}
	return steps
}

// seen is all text that was found somewhere.
type seen struct {
	t      *testing.T
	places map[string]string
}

func (s *seen) add(place, text string) { s.places[place] += text + "\n" }

// message takes in a message as it is on the wire, and as JSON.
func (s *seen) message(place string, m proto.Message) {
	s.t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	s.add(place, string(data))
	s.add(place, protojson.Format(m))
}

// check looks for secrets everywhere, and for what stood beside them in places.
func (s *seen) check(marked ...string) {
	s.t.Helper()
	looked := 0
	for place, text := range s.places {
		for name, secret := range map[string]string{"key": workersKey, "secret": workersSecret, "password": orchestratorsPW} {
			r, refused := redact.New(redact.Secret{Name: name, Value: secret})
			if len(refused) > 0 {
				s.t.Fatal(refused)
			}
			for _, form := range append(planted(secret), secret) {
				looked++
				if i := strings.Index(text, form); i >= 0 {
					s.t.Errorf("%s: the %s is there as %q, in %q", place, name, form, text[max(0, i-100):min(len(text), i+len(form)+100)])
				}
			}
			if r.Has(text) {
				s.t.Errorf("%s: the %s is there in some form", place, name)
			}
		}
	}
	for _, place := range marked {
		if !strings.Contains(s.places[place], marker) || !strings.Contains(s.places[place], "[redacted: ") {
			s.t.Errorf("%s: what stood beside the secrets is not there", place)
		}
	}
	s.t.Logf("%d looks into %d places: 0 secrets", looked, len(s.places))
}

// stored is all that the database holds.
func (d *deployment) stored(t *testing.T) string {
	t.Helper()
	if !strings.Contains(d.database, "://") {
		var all strings.Builder
		files, err := filepath.Glob(d.database + "*")
		if err != nil || len(files) == 0 {
			t.Fatalf("%v: %v", files, err)
		}
		for _, file := range files {
			all.WriteString(content(t, file))
		}
		return all.String()
	}
	return dump(t, d.database)
}
