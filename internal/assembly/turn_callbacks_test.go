package assembly_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// mailbox is a server that is called.
type mailbox struct {
	*httptest.Server
	came chan letter

	mu   sync.Mutex
	down bool
	keys map[string]bool // of the calls that came
}

// letter is a call as it came.
type letter struct {
	path, key, signature string
	body                 map[string]any
}

// says is a text of its body.
func (l letter) says(name string) string {
	text, _ := l.body[name].(string)
	return text
}

// mailboxOf gives a server that the orchestrators of the deployment may call.
func mailboxOf(d *deployment) *mailbox {
	m := &mailbox{came: make(chan letter, 100), keys: map[string]bool{}}
	m.Server = httptest.NewServer(m)
	d.t.Cleanup(m.Close)
	d.orchestratorFlags = []string{"--callback-hosts", "127.0.0.1", "--callback-secret", "s3cret", "--callback-timeout", "1s"}
	return m
}

func (m *mailbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := letter{path: r.URL.Path, key: r.Header.Get("Idempotency-Key"), signature: r.Header.Get("Coppice-Signature")}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down || json.NewDecoder(r.Body).Decode(&l.body) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !m.keys[l.key] { // it comes again if the answer took long
		m.keys[l.key] = true
		m.came <- l
	}
}

func (m *mailbox) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// next waits for a call.
func (m *mailbox) next(t *testing.T, path string) letter {
	t.Helper()
	select {
	case l := <-m.came:
		if l.path != path || !strings.HasPrefix(l.signature, "t=") {
			t.Fatalf("called is %+v, want %s", l, path)
		}
		return l
	case <-time.After(time.Minute):
		t.Fatalf("%s is not called", path)
	}
	return letter{}
}

// TestCallbacksOfASession: who opens a session hears what has to be approved in it, from a
// sub-agent too and over a crash of everything, and how its root ends; who spawns a task how
// that ends.
func TestCallbacksOfASession(t *testing.T) {
	t.Parallel()
	var boxes sync.Map // of deployments
	onBoth(t, asking, func(d *deployment) { boxes.Store(d, mailboxOf(d)) }, func(t *testing.T, d *deployment) {
		box, _ := boxes.Load(d)
		m, c := box.(*mailbox), d.client()
		m.setDown(true)
		resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
			Message: &pb.UserMessage{Text: "delegate"}, Permissions: &pb.Permissions{Ask: []string{"ls"}, Deny: []string{"task(plan)"}},
			OnApproval: m.URL + "/asked", OnComplete: m.URL + "/ended",
		})
		if err != nil {
			t.Fatal(err)
		}
		session := resp.GetSession().GetId()
		c.blockedBelow(session)
		c = d.killAll()
		a := c.blockedBelow(session)
		m.setDown(false)
		told := m.next(t, "/asked")
		if told.key != session+"/"+a.GetId() || told.says("event") != "approval.asked" || told.says("session_id") != session ||
			told.says("task_id") != a.GetTaskId() || told.says("agent") != "explore" || told.says("approval_id") != a.GetId() ||
			told.says("tool") != "ls" || told.says("argument") != "." || told.says("expires_at") == "" {
			t.Errorf("told is %+v of %v", told, a)
		}
		if ended := c.callbackEnded(session, a.GetTaskId()); !ended.GetDelivered() || ended.GetApprovalId() != a.GetId() {
			t.Errorf("its callback ended %v", ended)
		}
		c.decide(&pb.DecideApprovalRequest{ApprovalId: told.says("approval_id"), Decision: pb.Decision_DECISION_ALLOW, Scope: pb.ApprovalScope_APPROVAL_SCOPE_SESSION})
		c.doneWith(session)
		if ended := m.next(t, "/ended"); ended.says("event") != "task.ended" || ended.says("task_id") != c.root(session) {
			t.Errorf("told at the end is %+v", ended)
		}
		child := c.spawn(&pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look", OnComplete: m.URL + "/child"})
		if ended := m.next(t, "/child"); ended.says("task_id") != child.GetId() || ended.says("status") != "completed" {
			t.Errorf("told of the child is %+v", ended)
		}
		for _, bad := range []*pb.CreateSessionRequest{{OnComplete: "ftp://x/"}, {OnApproval: "x"}} {
			if _, err := c.CreateSession(c.ctx(), bad); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if _, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "x", OnComplete: "x"}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a child that calls nobody: %v", err)
		}
		c.sound()
	})
}
