package tree

import (
	"fmt"
	"strings"
)

// named puts the names of tasks in the place of their ids.
func (s *script) named(text string) string {
	for id, name := range s.names {
		text = strings.ReplaceAll(text, id.String(), name)
	}
	return text
}

func (s *script) runName(run ChildRun) string {
	return fmt.Sprintf("%s/%d", s.names[run.Task], run.Run)
}

// answer says what a command was answered.
func (s *script) answer(a Answer) string {
	switch a := a.(type) {
	case Created:
		return s.names[a.Root]
	case Sent:
		run := s.runName(ChildRun{a.Task, a.Run})
		switch {
		case a.Backgrounded > 0:
			return fmt.Sprintf("queued for %s, %d children go on without it", run, a.Backgrounded)
		case a.Queued:
			return "queued for " + run
		}
		return run
	case Spawned:
		return s.names[a.Task]
	case *Claimed:
		return fmt.Sprintf("%s @%d%s", s.runName(ChildRun{a.Task.ID, a.Task.Run}), a.Task.Epoch, spentText(a.Spent))
	case Reattached:
		return fmt.Sprintf("%s @%d, stream %d, request %d was the last",
			s.runName(ChildRun{a.Task.ID, a.Task.Run}), a.Task.Epoch, a.Task.Attach, a.Task.LastSeq)
	case Stored:
		text := "stored"
		if a.Ordinal > 0 {
			text += fmt.Sprintf(" as message %d", a.Ordinal)
		}
		if a.Approved {
			text += ", approved"
		}
		for _, l := range a.Launched {
			text += fmt.Sprintf(", %s runs for block %d", s.runName(ChildRun{l.Task, 1}), l.Block)
		}
		if a.Boundary > 0 {
			text += fmt.Sprintf(", go on after message %d", a.Boundary)
			if a.Short {
				text += " once the budget has a call left"
			}
		}
		return text + spentText(a.Spent)
	case ParkedRun:
		return "parked"
	case Ended:
		return "ended " + a.State.String()
	case Branched:
		return s.names[a.Task]
	case Cancelled:
		return fmt.Sprintf("ended %d runs", a.Runs)
	case Decided:
		return a.Approval.Outcome()
	case Cleared:
		return fmt.Sprintf("cleared %d messages and %d news, %d left", a.Messages, len(a.News), a.Left)
	case Closed:
		return fmt.Sprintf("closed, ended %d runs", a.Runs)
	case CallbackTaken:
		return fmt.Sprintf("to call %s, try %d", a.Callback.URL, a.Callback.Tries)
	case Done, DoneTo:
		return "done"
	}
	s.t.Fatalf("no answer: %T", a)
	return ""
}

// changes shows the events since before, and the tasks whose state they changed.
func (s *script) changes(before *database) {
	for _, e := range s.db.events[len(before.events):] {
		fmt.Fprintf(&s.out, "  %d %s %s\n", e.Seq, s.runName(ChildRun{e.Task, e.Run}), s.event(e.Kind))
	}
	for _, id := range byID(s.db.tasks) {
		now := s.state(s.db, id)
		if _, there := before.tasks[id]; !there || now != s.state(before, id) {
			fmt.Fprintf(&s.out, "  %s: %s\n", s.names[id], now)
		}
	}
}

// event says what happened.
func (s *script) event(kind EventKind) string {
	switch k := kind.(type) {
	case SessionOpened:
		return fmt.Sprintf("opened with %s, %q", k.Agent, k.Title)
	case Started:
		return s.started(k)
	case Dispatched:
		return fmt.Sprintf("dispatched @%d to %s", k.Epoch, k.Worker)
	case MessageAppended:
		return s.appended(k)
	case CallResolved:
		text := fmt.Sprintf("call %d.%d resolved", k.Ref.Message, k.Ref.Block)
		if (k.Child != ChildRun{}) {
			text += " by " + s.runName(k.Child)
		}
		switch {
		case k.Denial.Cause != DenialUnspecified:
			text += s.denial(k.Denial)
		case k.IsError:
			text += " with an error"
		}
		return text
	case Parked:
		return fmt.Sprintf("parked on %d %s", k.On.Total, waits(k.On.Kind))
	case Readied:
		causes := map[ReadyCause]string{ReadySatisfied: "satisfied", ReadyRedelivered: "redelivered", ReadyMadeWay: "to make way"}
		return fmt.Sprintf("readied @%d, %s", k.Epoch, causes[k.Cause])
	case Progressed:
		return fmt.Sprintf("progressed: %s", k.Activity)
	case Result:
		return fmt.Sprintf("result: %s, %d tokens, %d tool uses", ended(k.State, k.Reason, k.Detail), k.Usage.Total(), k.ToolUses)
	case Backgrounded:
		return "backgrounded"
	case BranchOpened:
		return fmt.Sprintf("branch opened with %s, %s", k.Agent, s.base(k.Base))
	case BranchSelected:
		return "selected"
	case Imported:
		return fmt.Sprintf("imported %d messages", k.Messages)
	case HookRan:
		return fmt.Sprintf("hook %s on %s for %s %s after %d ms: %s", k.Name, k.Event, k.Matcher, k.Outcome, k.Millis, k.Message)
	case CallbackEnded:
		if !k.Approval.IsZero() {
			return fmt.Sprintf("callback of %s to %s ended, delivered: %t, tries: %d, %s", s.approvalName(k.Approval), k.URL, k.Delivered, k.Tries, k.Detail)
		}
		return fmt.Sprintf("callback of run %d to %s ended, delivered: %t, tries: %d, %s", k.Run, k.URL, k.Delivered, k.Tries, k.Detail)
	case Queued:
		if (k.News != ChildRun{}) {
			return "queued news of " + s.runName(k.News)
		}
		return "queued a message"
	}
	if text, ok := inboxEvent(kind); ok {
		return text
	}
	return s.approvalEvent(kind)
}

func spentText(spent string) string {
	if spent == "" {
		return ""
	}
	return ", but " + spent
}

func inboxEvent(kind EventKind) (string, bool) {
	switch k := kind.(type) {
	case InboxTaken:
		return fmt.Sprintf("takes in %d messages, %d news", k.Messages, k.News), true
	case InboxCleared:
		return fmt.Sprintf("inbox cleared of %d messages, %d news, %d left", k.Messages, len(k.News), k.Left), true
	case InboxEmpty:
		return "inbox empty", true
	case SessionChanged:
		return map[SessionChange]string{
			SessionClosed: "closed", SessionDeleted: "deleted", SessionRenamed: fmt.Sprintf("renamed %q", k.Title),
			SessionBudgeted: budgetText(k.Budget),
		}[k.Change], true
	}
	return "", false
}

func budgetText(b Budget) string {
	text := fmt.Sprintf("budget of %d tokens and %d micros", b.Tokens, b.Cost)
	if b.ModelCalls > 0 {
		text += fmt.Sprintf(" and %d calls", b.ModelCalls)
	}
	return text
}

func (s *script) started(k Started) string {
	text := fmt.Sprintf("started with %s at depth %d", k.Agent, k.Depth)
	if k.Kind == KindShell {
		text = fmt.Sprintf("started as the command %s at depth %d", k.Description, k.Depth)
	}
	if !k.Parent.IsZero() {
		text += " below " + s.names[k.Parent]
	}
	if (k.Call != CallRef{}) {
		text += fmt.Sprintf(" for call %d.%d", k.Call.Message, k.Call.Block)
	}
	if k.Background {
		text += ", in the background"
	}
	if k.Base.Kind != BaseNone {
		text += ", " + s.base(k.Base)
	}
	return text
}

func (s *script) appended(k MessageAppended) string {
	roles := map[Role]string{RoleUser: "user", RoleAssistant: "assistant", RoleTool: "tool"}
	text := fmt.Sprintf("message %d, %s", k.Ordinal, roles[k.Role])
	if (k.News != ChildRun{}) {
		text += ", news of " + s.runName(k.News)
	}
	if k.UpTo > 0 {
		text += fmt.Sprintf(", sums up what is up to %d", k.UpTo)
	}
	for i, call := range k.Calls {
		if i == 0 {
			text += ", calls"
		}
		text += fmt.Sprintf(" %d:%s", call.Block, call.Tool)
	}
	return text
}

func waits(kind WaitKind) string {
	if kind == WaitCalls {
		return "calls"
	}
	return "background children"
}

func ended(state State, reason Reason, detail string) string {
	text := state.String()
	if state != StateCompleted {
		text += " " + reason.String()
	}
	if detail != "" {
		text += fmt.Sprintf(" (%s)", detail)
	}
	return text
}

// state says all that matters of a task's row and its calls.
func (s *script) state(db *database, id TaskID) string {
	t := db.tasks[id]
	text := fmt.Sprintf("run %d ", t.Run)
	switch {
	case t.State == StateNew:
		text = "new"
	case t.State.Terminal():
		text += ended(t.State, t.Reason, t.Detail)
	case t.State == StateWaiting:
		text += fmt.Sprintf("waiting for %s, %d of %d met", waits(t.Wait.Kind), t.Wait.Met, t.Wait.Total)
		if t.Wait.Failed > 0 {
			text += fmt.Sprintf(", %d failed", t.Wait.Failed)
		}
	default:
		text += fmt.Sprintf("%s @%d", t.State, t.Epoch)
	}
	ready, begun := db.ready[id], !t.StartedAt.IsZero()
	if ready.Priority > 0 {
		text += fmt.Sprintf(", priority %d", ready.Priority)
	}
	switch {
	case t.State != StatePending:
	case begun && ready.Precedence == precedenceYielded:
		text += ", goes behind"
	case !begun && ready.Precedence == precedenceStarted:
		text += ", goes first"
	case !begun && ready.Precedence > 0:
		text += fmt.Sprintf(", precedence %d", ready.Precedence)
	}
	if t.Worker != "" {
		text += " with " + t.Worker
	}
	if !t.Pin.IsZero() {
		text += fmt.Sprintf(", model %s/%s", t.Pin.Provider, t.Pin.Name)
	}
	if t.Attach > 1 {
		text += fmt.Sprintf(", stream %d", t.Attach)
	}
	for _, ref := range []CallRef{timeoutRef, deadlineRef} {
		if timer, ok := db.timers[CallKey{id, ref}]; ok {
			name := map[CallRef]string{timeoutRef: "timeout", deadlineRef: "deadline"}[ref]
			text += fmt.Sprintf(", %s at %s", name, timer.Due.Format("15:04:05"))
		}
	}
	if t.Strikes > 0 {
		text += fmt.Sprintf(", strikes %d", t.Strikes)
	}
	for _, c := range db.openCalls(id) {
		text += fmt.Sprintf(", call %d.%d %s", c.Ref.Message, c.Ref.Block, s.call(db, c))
	}
	if t.Inbox > 0 {
		text += fmt.Sprintf(", inbox %d", t.Inbox)
	}
	if t.Authority != "" {
		text += fmt.Sprintf(", may %s", t.Authority)
	}
	if t.Source != "" {
		text += ", for " + t.Source
	}
	if t.Output != "" {
		text += fmt.Sprintf(", prints %q", t.Output)
	}
	if t.Release > 0 {
		text += fmt.Sprintf(", lets commands of message %d go", t.Release)
	}
	if t.LiveBackground > 0 {
		text += fmt.Sprintf(", live in the background %d", t.LiveBackground)
	}
	return text
}

func (s *script) call(db *database, c *Call) string {
	switch c.State {
	case CallStarted:
		return "started"
	case CallWaiting:
		text := "waits for " + s.runName(c.Child)
		if timer, ok := db.timers[CallKey{c.Task, c.Ref}]; ok {
			text += " until " + timer.Due.Format("15:04:05")
		}
		return text
	case CallAsking:
		text := "asks"
		if timer, ok := db.timers[CallKey{c.Task, c.Ref}]; ok {
			text += " until " + timer.Due.Format("15:04:05")
		}
		return text
	case CallApproved:
		return "approved"
	default:
		return "open"
	}
}

// show writes down a task's transcript as its model sees it.
func (s *script) show(id TaskID) {
	for _, m := range s.db.messages[id] {
		fmt.Fprintf(&s.out, "  %d ", m.Ordinal)
		switch {
		case m.UpTo > 0:
			fmt.Fprintf(&s.out, "summary up to %d: %s\n", m.UpTo, m.Text())
		case (m.News != ChildRun{}):
			fmt.Fprintf(&s.out, "user: %s\n", s.news(m.News))
		case m.Role == RoleTool:
			fmt.Fprint(&s.out, "tool:\n")
			s.showResults(m)
		case m.Role == RoleAssistant:
			fmt.Fprintf(&s.out, "assistant: %s", m.Text())
			for i, b := range m.Blocks {
				if use, ok := b.(ToolUse); ok {
					fmt.Fprintf(&s.out, "[%d %s]", i, use.Name)
				}
			}
			fmt.Fprintln(&s.out)
		default:
			fmt.Fprintf(&s.out, "user: %s\n", m.Text())
		}
	}
}

func (s *script) showResults(m Message) {
	asked := s.db.message(m.Task, m.Ordinal-1)
	for i := range asked.Blocks {
		c, ok := s.db.calls[CallKey{m.Task, CallRef{asked.Ordinal, i}}]
		if !ok {
			continue
		}
		text := s.named(c.Text)
		switch {
		case c.ByOutcome && c.Reads:
			text = s.output(c.Child)
		case c.ByOutcome:
			text = s.outcome(c.Child)
		}
		if c.IsError {
			text = "(error) " + text
		}
		fmt.Fprintf(&s.out, "      %d: %s\n", i, text)
	}
}

func (s *script) outcome(run ChildRun) string { return s.named(s.outcomeOf(run).Text()) }

func (s *script) news(run ChildRun) string {
	t := s.db.tasks[run.Task]
	return s.named(s.outcomeOf(run).News(&t))
}

func (s *script) output(run ChildRun) string {
	t := s.db.tasks[run.Task]
	return s.named(s.outcomeOf(run).Output(&t).Text())
}

func (s *script) outcomeOf(run ChildRun) Outcome {
	o := Outcome{Run: s.db.runs[run], Session: s.db.session.ID}
	if o.Run.Answer > 0 {
		o.SetAnswerText(s.db.message(run.Task, o.Run.Answer).Text())
	}
	return o
}

// denial says what a call was denied by.
func (s *script) denial(d Denial) string {
	by := map[DenialCause]string{
		DeniedByPermission: "by the permissions", DeniedUnasked: "unasked", DeniedByDecision: "by a decision", DeniedByExpiry: "since nobody decided",
	}[d.Cause]
	text := " as denied " + by
	if len(d.Rules) > 0 {
		text += ", asked by " + strings.Join(d.Rules, " ")
	}
	if d.ByDefinition {
		text += " by its definition"
	}
	return fmt.Sprintf("%s: %s %q, %s", text, d.Tool, d.Argument, d.Detail)
}
