package tree

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

// TestScripts holds conversations with the core. In a script
//
//	# a comment
//	> a command, decided on a view of its own
//	+ a command, decided on the view of the one before
//
// are kept as they are; what is below them is the answer of each ("=", or "!"
// for a refusal), the events, and the new state of each task that changed. The
// commands:
//
//	limits CAP=N … [foreground] [tokens=N] [cost=MICROS] [calls=N]    caps and budget of the session that is opened next
//	agent NAME MODE [iterations=N] [model=M] [timeout=DURATION] [version=V] [brittle] [callback=URL] [PERMISSION …]
//	session [PERMISSION …] [source=S] [complete=URL] [asked=URL]   of the session that is opened next
//	clock DURATION                 time passes
//	open AGENT ["text"]
//	send TASK [interrupt] ["text" …]
//	hear TASK SOURCE "text"         a message from outside
//	approve APPROVAL [session] · deny APPROVAL [session] ["text"]
//	clear TASK [news]              what waits for it
//	close [WHY] · delete [IDLE] · rename TITLE · budget [tokens=N] [cost=MICROS] [calls=N]
//	spawn PARENT NAME [CHILD] [notify]
//	cancel TASK [run=N] [WHY]
//	claim TASK WORKER [epoch=N] [again]
//	lose TASK [blameless] [epoch=N] [stream=N]
//	reattach TASK
//	repeat TASK#N [answer]
//	background TASK [commands]
//	calls TASK run=N [of=APPROVAL]  a callback is taken
//	called TASK run=N [of=APPROVAL] try=N [delivered] [final] "detail"
//	expire TASK MESSAGE.BLOCK · timeout · deadline
//	branch TASK NAME N [apart|again|select|older] ["text"] · select TASK
//	import AGENT "text" …          opens a session with a history, by turns of user and assistant
//	show TASK                      its transcript, as its model sees it
//	repeat TASK#N [answer|summary] [asked=BLOCK] [launched=BLOCK]
//	TASK: asks TOOL …              and what else its worker may send:
//	TASK: spawns BLOCK=NAME[,CHILD] …
//	TASK: starts BLOCK · closes BLOCK [error or denied "argument"] "text" · reports "text"
//	TASK: awaits BLOCK TASK [DURATION] · kills BLOCK TASK · parks · wonders BLOCK RULE …
//	TASK: prints "output" · exits "output" [REASON "detail"]     of a command
//	TASK: sums up to N "text"
//	TASK: hooks start [NAME=OUTCOME[,OUTPUT] …] · hooks stop "answer" [NAME=OUTCOME[,OUTPUT] …]
//	TASK: answers ["text" …] [calling TOOL] [leaving "line"] · fails REASON "detail" [leaving "line"]
//
// where CHILD is fork, agent=NAME, prompt=TEXT, model=M, timeout=D, deadline=D from now,
// iterations=N, context=TEXT, background, any, need=N, join=D, resume, shell=LINE or moved=LINE, PERMISSION is mode=M,
// allow=RULE, ask=RULE, deny=RULE, background=TOOL or approvals=deny|escalate, and approvals are called
// a1, a2 and so on. A worker has the token of the task's last claim and counts
// its requests; TASK@E: is the worker of epoch E, TASK~S: speaks over the stream S,
// TASK#N: makes it request N.
func TestScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("looking for scripts: %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := newScript(t).run(string(want))
			if *update {
				err = os.WriteFile(path, got, 0o600)
				if err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s is out of date at\n%s\nrun with -update and look at what has changed", path, firstChange(string(got), string(want)))
			}
		})
	}
}

// firstChange shows where two texts part.
func firstChange(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("line %d:\ngot  %s\nwant %s", i+1, a[i], strings.Join(b[min(i, len(b)):min(i+1, len(b))], ""))
		}
	}
	return "its end"
}

// script is a conversation with the core.
type script struct {
	t       *testing.T
	db      *database
	agents  map[string]*Agent
	limits  Limits
	given   Budget   // of the session that is opened next
	pin     ModelPin // of sessions opened from now on
	names   map[TaskID]string
	tokens  map[TaskID]map[int64]Token // by epoch
	seqs    map[Token]int64            // last request taken; epochs of tasks differ by nonce
	streams map[Token]int              // the last stream of an attempt
	nonces  uint64
	out     bytes.Buffer

	opening CreateSession // what the next session says besides
}

func newScript(t *testing.T) *script {
	return &script{
		t: t, db: newDatabase(), limits: DefaultLimits(),
		agents: map[string]*Agent{
			"main":  {Name: "main", Version: "1", Mode: ModePrimary},
			"scout": {Name: "scout", Version: "1", Mode: ModeSubagent},
		},
		names:   map[TaskID]string{},
		tokens:  map[TaskID]map[int64]Token{},
		seqs:    map[Token]int64{},
		streams: map[Token]int{},
	}
}

// run gives the script with all answers written anew.
func (s *script) run(text string) []byte {
	var batch []string
	flush := func() {
		if len(batch) > 0 {
			s.decide(batch)
			batch = nil
		}
	}
	for line := range strings.Lines(text) {
		isCommand, goesOn := strings.HasPrefix(line, "> "), strings.HasPrefix(line, "+ ")
		isKept := isCommand || goesOn || line == "\n" || line[0] == '#'
		if !isKept {
			continue // an answer as it was
		}
		if !goesOn {
			flush()
		}
		if isCommand || goesOn {
			batch = append(batch, line[2:])
		}
		s.out.WriteString(line)
	}
	flush()
	return s.out.Bytes()
}

// decide decides the commands of a batch on one view and writes what they change.
func (s *script) decide(batch []string) {
	if s.aside(batch[0]) {
		return
	}
	before := s.db.clone()
	v := s.db.view()
	for _, line := range batch {
		words := s.words(line)
		cmd := s.command(v, words)
		got, err := s.db.decide(v, cmd)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		s.note(v, cmd, words, got)
		if got.Err != nil {
			fmt.Fprintf(&s.out, "! %s\n", s.named(got.Err.Error()))
		} else {
			fmt.Fprintf(&s.out, "= %s\n", s.answer(got.Answer))
		}
	}
	if err := s.db.write(v.Changes()); err != nil {
		s.t.Fatalf("%s: %v", batch, err)
	}
	if err := s.db.check(); err != nil {
		s.t.Errorf("after %q: %v", batch, err)
	}
	if err := s.db.checkReplay(); err != nil {
		s.t.Errorf("after %q: %v", batch, err)
	}
	s.changes(before)
}

// aside does what is not a command of the core.
func (s *script) aside(line string) bool {
	words := s.words(line)
	switch words[0] {
	case "limits":
		s.limits, s.given = DefaultLimits(), s.budget(words)
		caps := map[string]*int{
			"depth": &s.limits.Depth, "width": &s.limits.Width, "total": &s.limits.Total, "running": &s.limits.Running,
			"root": &s.limits.RootIterations, "sub": &s.limits.SubIterations, "part": &s.limits.PartBytes, "inbox": &s.limits.Inbox,
			"queue": &s.limits.Queue, "inboxbytes": &s.limits.InboxBytes, "output": &s.limits.OutputBytes,
		}
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			switch name {
			case "approval":
				s.limits.Approval = s.duration(value)
				continue
			case "time":
				s.limits.RunTimeout = s.duration(value)
				continue
			case "foreground":
				s.limits.NoBackground = true
				continue
			case "tokens", "cost", "calls":
				continue
			}
			*caps[name] = s.number(value)
		}
	case "agent":
		modes := map[string]Mode{"primary": ModePrimary, "subagent": ModeSubagent, "both": ModeBoth}
		a := &Agent{Name: words[1], Version: "1", Mode: modes[words[2]]}
		for _, w := range words[3:] {
			switch key, value, _ := strings.Cut(w, "="); key {
			case "model":
				a.Model = value
			case "version":
				a.Version = value
			case "iterations":
				a.MaxIterations = s.number(value)
			case "timeout":
				a.Timeout = s.duration(value)
			case "fork":
				a.ForkContext = true
			case "callback":
				a.OnComplete = value
			case "brittle":
				a.FailOnInterrupt = true
			}
		}
		a.Permissions = s.permissions(words[3:]).Pin()
		s.agents[a.Name] = a
	case "pin":
		s.pin.Provider, s.pin.Name, _ = strings.Cut(words[1], "/")
	case "session":
		says := s.permissions(words[1:])
		s.opening = CreateSession{
			Permissions: says.Layer, Approvals: says.Approvals, Source: s.text(words, "source"),
			OnComplete: s.text(words, "complete"), OnApproval: s.text(words, "asked"),
		}
	case "clock":
		s.db.now = s.db.now.Add(s.duration(words[1]))
	case "show":
		s.show(s.task(words[1]))
	default:
		return false
	}
	return true
}

// note remembers the names and tokens that a command brought.
func (s *script) note(v *View, cmd Command, words []string, got decided) {
	if from, ok := fromOf(cmd); ok && got.Err == nil {
		s.seqs[from.Token] = from.Seq
	}
	switch answer := got.Answer.(type) {
	case Created:
		s.names[answer.Root] = "root"
	case Spawned:
		s.names[answer.Task] = words[2]
	case Branched:
		s.names[answer.Task] = words[2]
	case *Claimed:
		token := cmd.(Claim).Token
		if s.tokens[answer.Task.ID] == nil {
			s.tokens[answer.Task.ID] = map[int64]Token{}
		}
		s.tokens[answer.Task.ID][token.Epoch] = token
		s.streams[token] = answer.Task.Attach
	case Reattached:
		s.streams[cmd.(Reattach).Token] = answer.Task.Attach
	}
	spawned, ok := cmd.(SpawnCalls)
	if !ok || got.Err != nil {
		return
	}
	s.noteLaunched(spawned, got.Answer.(Stored).Launched)
	for i, child := range spawned.Children {
		for ref, call := range v.calls[spawned.From.Task] {
			if call != nil && ref.Block == child.Block && s.names[call.Child.Task] == "" && !call.Child.Task.IsZero() {
				name, _, _ := strings.Cut(words[2+i], ",")
				_, name, _ = strings.Cut(name, "=")
				s.names[call.Child.Task] = name
			}
		}
	}
}

// task gives the id of a task by its name; one that was never there has one too.
func (s *script) task(name string) TaskID {
	for id, n := range s.names {
		if n == name {
			return id
		}
	}
	id := TaskID{0: 0xff}
	copy(id[1:], name)
	s.names[id] = name
	return id
}

// words splits a line at blanks; what is quoted stays together.
func (s *script) words(line string) []string {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			s.t.Fatalf("%s: %v", quoted, err)
		}
		words, line = append(words, word), line[len(quoted):]
	}
	return words
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
