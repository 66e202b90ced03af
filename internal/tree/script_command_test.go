package tree

import (
	"slices"
	"strings"
	"time"
)

// command reads a command of the core.
func (s *script) command(v *View, words []string) Command {
	if who, ok := strings.CutSuffix(words[0], ":"); ok {
		return s.request(s.from(who), words[1], words[2:])
	}
	switch words[0] {
	case "open":
		return CreateSession{
			ID: SessionID{1}, Tenant: "acme", Agent: s.agents[words[1]], Message: texts(words[2:]), Limits: s.limits, Budget: s.given, Pin: s.pin,
			Permissions: s.opening.Permissions, Approvals: s.opening.Approvals, OnComplete: s.opening.OnComplete, OnApproval: s.opening.OnApproval, Source: s.opening.Source,
		}
	case "send":
		text := slices.DeleteFunc(slices.Clone(words[2:]), func(w string) bool { return w == "interrupt" })
		return Send{Task: s.taskOrRoot(words[1]), Message: texts(text), Interrupt: len(text) < len(words)-2}
	case "clear":
		return ClearInbox{Task: s.taskOrRoot(words[1]), News: slices.Contains(words, "news")}
	case "close":
		return CloseSession{Detail: strings.Join(words[1:], " ")}
	case "delete":
		d := DeleteSession{}
		if len(words) > 1 {
			d.IdleFor = s.duration(words[1])
		}
		return d
	case "rename":
		return ChangeSession{Title: strings.Join(words[1:], " ")}
	case "budget":
		budget := s.budget(words[1:])
		return ChangeSession{Budget: &budget}
	case "hear":
		return Send{Task: s.taskOrRoot(words[1]), Source: words[2], Message: texts(words[3:])}
	case "approve", "deny":
		return s.answerTo(words)
	case "spawn":
		return SpawnTask{
			Parent: s.taskOrRoot(words[1]), Child: s.child(words[2], words[3:]).Child, Notify: slices.Contains(words, "notify"),
		}
	case "claim":
		id := s.task(words[1])
		if !slices.Contains(words, "again") {
			s.nonces++
		}
		return Claim{Task: id, Token: Token{s.epoch(v, id, words), s.nonces}, Worker: words[2]}
	case "lose":
		id := s.task(words[1])
		return Redeliver{
			Task: id, Epoch: s.epoch(v, id, words), Attach: s.option(words, "stream"), Blame: !slices.Contains(words, "blameless"),
		}
	case "reattach":
		f := s.from(words[1])
		return Reattach{Task: f.Task, Token: f.Token}
	case "repeat":
		return Repeat{From: s.from(words[1]), Answered: slices.Contains(words, "answer"), Summed: slices.Contains(words, "summary"), Asked: s.askedIn(words), Launched: s.launchedIn(words)}
	case "background":
		if len(words) > 2 {
			return BackgroundCommands{Task: s.taskOrRoot(words[1])}
		}
		return Background{Task: s.task(words[1])}
	case "branch":
		return s.branch(words)
	case "select":
		return SelectBranch{Task: s.taskOrRoot(words[1])}
	case "import":
		return CreateSession{
			ID: SessionID{1}, Tenant: "acme", Agent: s.agents[words[1]], History: imported(words[2:]), Limits: s.limits,
		}
	case "calls":
		return TakeCallback{CallbackKey: s.callbackKey(words), Lease: time.Minute, MaxTries: 3}
	case "called":
		return SettleCallback{
			CallbackKey: s.callbackKey(words), Try: s.option(words, "try"), MaxTries: 3, Retry: 10 * time.Second,
			Delivered: slices.Contains(words, "delivered"), Final: slices.Contains(words, "final"), Detail: words[len(words)-1],
		}
	case "cancel":
		why := slices.DeleteFunc(slices.Clone(words[2:]), func(w string) bool { return strings.HasPrefix(w, "run=") })
		return Cancel{Task: s.taskOrRoot(words[1]), Run: s.option(words, "run"), Detail: strings.Join(why, " ")}
	case "expire":
		if ref, ok := map[string]CallRef{"timeout": timeoutRef, "deadline": deadlineRef}[words[2]]; ok {
			return Expire{Task: s.task(words[1]), Ref: ref}
		}
		message, block, _ := strings.Cut(words[2], ".")
		c := Expire{Task: s.task(words[1]), Ref: CallRef{s.number(message), s.number(block)}}
		if minutes := s.option(words, "due"); minutes > 0 {
			c.Due = began.Add(time.Duration(minutes) * time.Minute)
		}
		return c
	}
	s.t.Fatalf("no command: %q", words)
	return nil
}

// budget reads tokens=N, cost=MICROS and calls=N.
func (s *script) budget(words []string) Budget {
	return Budget{
		Tokens: int64(s.option(words, "tokens")), Cost: int64(s.option(words, "cost")), ModelCalls: int64(s.option(words, "calls")),
	}
}

// taskOrRoot gives the zero id for the root: a client need not know its id.
func (s *script) taskOrRoot(name string) TaskID {
	if name == "root" {
		return TaskID{}
	}
	return s.task(name)
}

// option gives the number that is named, or 0.
func (s *script) option(words []string, name string) int {
	for _, w := range words {
		if n, ok := strings.CutPrefix(w, name+"="); ok {
			return s.number(n)
		}
	}
	return 0
}

// epoch gives the epoch that is named, or the task's.
func (s *script) epoch(v *View, id TaskID, words []string) int64 {
	if n := s.option(words, "epoch"); n > 0 {
		return int64(n)
	}
	if t := s.row(v, id); t != nil {
		return t.Epoch
	}
	return 1
}

// row gives a task as the commands decided so far have left it.
func (s *script) row(v *View, id TaskID) *Task {
	if t := v.tasks[id]; t != nil {
		return t
	}
	return found(s.db.tasks, id)
}

// from reads TASK, with @EPOCH, ~STREAM and #REQUEST as far as they are named.
func (s *script) from(who string) From {
	who, seq, counted := strings.Cut(who, "#")
	who, stream, streamed := strings.Cut(who, "~")
	who, epoch, dated := strings.Cut(who, "@")
	f := From{Task: s.task(who)}
	if dated {
		f.Token = s.tokens[f.Task][int64(s.number(epoch))]
	} else {
		last := int64(-1)
		for e, token := range s.tokens[f.Task] {
			if e > last {
				last, f.Token = e, token
			}
		}
	}
	f.Attach = s.streams[f.Token]
	if streamed {
		f.Attach = s.number(stream)
	}
	f.Seq = s.seqs[f.Token] + 1
	if counted {
		f.Seq = int64(s.number(seq))
	}
	return f
}

// request reads what a worker sends.
func (s *script) request(f From, verb string, args []string) Command {
	switch verb {
	case "asks":
		return AppendAnswer{From: f, Message: said(nil, args)}
	case "says": // and asks
		return AppendAnswer{From: f, Message: said(args[:1], args[1:])}
	case "spawns":
		c := SpawnCalls{From: f}
		for _, arg := range args {
			block, rest, _ := strings.Cut(arg, "=")
			options := strings.Split(rest, ",")
			child := s.child(options[0], options[1:])
			child.Block = s.number(block)
			c.Children = append(c.Children, child)
		}
		return c
	case "starts":
		return StartCall{From: f, Block: s.number(args[0])}
	case "closes":
		c := CloseCall{From: f, Block: s.number(args[0]), Text: args[len(args)-1], IsError: args[1] == "error"}
		if args[1] == "denied" { // and what the call is about
			c.IsError, c.Denial = true, Denial{Cause: DeniedByPermission, Argument: args[2], Detail: c.Text}
		}
		return c
	case "kills":
		return AwaitTask{From: f, Block: s.number(args[0]), Target: s.task(args[1]), Stop: true}
	case "prints":
		return Report{From: f, Output: args[0]}
	case "exits":
		c := EndShell{From: f, Output: args[0]}
		if len(args) > 1 {
			c.Reason, c.Detail = Reason(slices.Index(reasonNames[:], args[1])), args[2] //nolint:gosec // a script names a reason there is
		}
		return c
	case "awaits":
		c := AwaitTask{From: f, Block: s.number(args[0]), Target: s.task(args[1])}
		if len(args) > 2 {
			c.Timeout = s.duration(args[2])
		}
		return c
	case "reports":
		return Report{From: f, Activity: args[0]}
	case "wonders":
		return Ask{From: f, Block: s.number(args[0]), Argument: "x", Rules: args[1:]}
	case "parks":
		return Park{From: f}
	case "sums":
		return Compact{From: f, UpTo: s.number(args[2]), Summary: said(args[3:], nil)}
	case "answers":
		var left string
		if n := len(args) - 2; n > 0 && args[n] == "leaving" {
			args, left = args[:n], args[n+1]
		}
		text, tools := args, []string(nil)
		if i := slices.Index(args, "calling"); i >= 0 {
			text, tools = args[:i], args[i+1:]
		}
		answer := said(text, tools)
		return End{From: f, Answer: &answer, Left: left}
	case "hooks":
		if args[0] == "start" {
			return StartHooks{From: f, Ran: hooksRan(SubagentStart, args[1:])}
		}
		answer := said(args[1:2], nil)
		return StopHooks{From: f, Answer: &answer, Ran: hooksRan(SubagentStop, args[2:])}
	case "fails":
		reason := Reason(slices.Index(reasonNames[:], args[0])) //nolint:gosec // a script names a reason there is
		end := End{From: f, Reason: reason, Detail: args[1]}
		if len(args) > 3 && args[2] == "leaving" {
			end.Left = args[3]
		}
		return end
	}
	s.t.Fatalf("no request: %q", verb)
	return nil
}

// child reads what is known of a child; what is not said is what a child needs.
func (s *script) child(name string, options []string) CallChild {
	c := CallChild{Child: Child{AgentName: "scout", Agent: s.agents["scout"], Description: name, Prompt: "do " + name}}
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "agent":
			c.AgentName, c.Agent = value, s.agents[value]
		case "prompt":
			c.Prompt = value
		case "about":
			c.Description = value
		case "model":
			c.Model = value
		case "pin":
			c.Pin.Provider, c.Pin.Name, _ = strings.Cut(value, "/")
		case "no-model":
			c.NoModel = value
		case "background":
			c.Background = true
		case "shell", "moved":
			s.nonces++
			c.Shell = &Shell{Line: value, Nonce: s.nonces, Timeout: c.Timeout, File: "out.txt", ByUser: key == "moved"}
		case "timeout":
			c.Timeout = s.duration(value)
		case "deadline":
			c.Deadline = s.db.now.Add(s.duration(value))
		case "iterations":
			c.MaxIterations = s.number(value)
		case "context":
			c.Context = append(c.Context, value)
		case "any":
			c.Join = JoinAny
		case "need":
			c.Join = Join(s.number(value)) //nolint:gosec // scripts ask for a few
		case "join":
			c.JoinFor = s.duration(value)
		case "resume":
			c.Resume = s.task(name)
		case "fork":
			c.Fork = true
		case "notify":
		default:
			s.t.Fatalf("no option of a child: %q", option)
		}
	}
	return c
}

// said is what a model says. Its provider gives all calls the same id.
func said(text, tools []string) Message {
	m := Message{Blocks: texts(text), Model: "m-1", Usage: Usage{Input: 10, Output: 5}, Stop: StopEndTurn}
	for _, tool := range tools {
		m.Blocks = append(m.Blocks, ToolUse{ProviderID: "call_0", Name: tool})
		m.Stop = StopToolUse
	}
	return m
}

func texts(words []string) []Block {
	var blocks []Block
	for _, w := range words {
		blocks = append(blocks, Text{Text: w})
	}
	return blocks
}

// hooksRan reads NAME=OUTCOME[,OUTPUT] of hooks.
func hooksRan(event HookEvent, words []string) []HookRun {
	var ran []HookRun
	for _, w := range words {
		name, rest, _ := strings.Cut(w, "=")
		outcome, output, _ := strings.Cut(rest, ",")
		r := HookRun{Event: event, Name: name, Matcher: "*", Output: output, Message: output, Millis: 7}
		for o := HookPassed; o <= HookForbidden; o++ {
			if o.String() == outcome {
				r.Outcome = o
			}
		}
		ran = append(ran, r)
	}
	return ran
}
