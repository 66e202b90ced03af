package tree

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/policy"
)

// ApprovalState is the state of an approval.
type ApprovalState uint8

// The states of an approval. Their numbers are stored: never change or reuse one.
const (
	ApprovalUnspecified ApprovalState = iota
	ApprovalOpen                      // not decided yet
	ApprovalAllowed                   // the call may run
	ApprovalDenied                    // the call was closed with the denial
	ApprovalExpired                   // not decided in time, which denies the call
	ApprovalWithdrawn                 // the run ended first
)

// Approval is the question whether a call may run, and its answer.
type Approval struct {
	ID   ApprovalID
	Task TaskID
	Run  int
	Ref  CallRef

	Tool     string
	Argument string   // what the tool says that the call is about; cut if it is long
	Cut      int      // bytes of Argument that were cut
	Rules    []string // the rules that ask; if there are many, some of those not granted yet

	State      ApprovalState
	ForSession bool   // allowed for everything in the session that the same rules ask about
	Message    string // of the person who decided
	AskedAt    time.Time
	Due        time.Time // when it expires; zero: never
	DecidedAt  time.Time

	// While the approval is open and its callback has not ended: the URL to call, the number of
	// tries, and when the next try is due.
	URL     string
	Tries   int
	CallDue time.Time
}

// Ask asks whether a call may run. It may if the call is approved already, or if the session has
// granted what asks. A sub-agent that may not ask, by its definition or else by its session, gets
// the call closed with a denial. Otherwise the call waits for a decision. Answer: [Stored].
type Ask struct {
	From
	Block    int
	Argument string
	Rules    []string // the rules that ask, or the call itself where a mode asks
}

// DecideApproval decides an open approval. The same decision again changes nothing. Answer:
// [Decided].
type DecideApproval struct {
	ID         ApprovalID
	Allow      bool
	ForSession bool // with Allow: the same rules do not ask again in this session, and open approvals of theirs are allowed too
	Message    string
}

// Decided is the approval as it was decided.
type Decided struct{ Approval Approval }

func (Decided) isAnswer() {}

// Limits of what a worker may ask, and of what is stored of it.
const (
	maxRules    = 64
	maxRuleText = 1000
	maxArgument = 4000
)

func (c Ask) needs(n *needs) { n.openCall(c.From, c.Block) }

func (c Ask) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	call, err := d.openCall(t, c.Block)
	switch {
	case err != nil:
		return nil, err
	case call.State == CallStarted:
		return nil, ErrBadInput.With("the call in block %d has already started", c.Block)
	case len(c.Rules) == 0:
		return nil, ErrBadInput.With("the request names no rule that asks")
	}
	for _, r := range c.Rules {
		if len(r) > maxRuleText {
			return nil, ErrTooLarge.With("a rule has %d bytes, the limit is %d", len(r), maxRuleText)
		}
	}
	d.recordRequest(t, c.From)
	verdict := policy.Verdict{Decision: policy.Ask, Rules: c.Rules}
	switch {
	case call.State == CallApproved || verdict.Granted(d.session().Grants):
		call.State = CallApproved
		d.view.touchCall(call)
		return Stored{Approved: true}, nil
	case t.Depth > 0 && !d.escalates(t):
		d.refuse(t, call, ErrApprovalDenied.With("%s, and a sub-agent has nobody to ask", describeAskers(call.Tool, c)),
			Denial{Cause: DeniedUnasked, Argument: c.Argument, Rules: c.rulesToName(d.session().Grants),
				ByDefinition: t.Permissions.Open().Approvals == policy.ApprovalsDeny})
		return d.stored(t), nil
	}
	d.openApproval(t, call, c)
	return Stored{}, nil
}

// describeAskers says, for a model, what asks.
func describeAskers(tool string, c Ask) string {
	var all []string
	for _, asker := range policy.Askers(tool, c.Argument, c.Rules) {
		all = append(all, asker.Text(func(s string) string { return s }))
	}
	if len(all) == 1 {
		return all[0] + " asks"
	}
	return strings.Join(all, " and ") + " ask"
}

// escalates reports whether questions of a sub-agent become approvals of the session.
func (d *decision) escalates(t *Task) bool {
	switch t.Permissions.Open().Approvals {
	case policy.ApprovalsDeny:
		return false
	case policy.ApprovalsEscalate:
		return true
	}
	return d.session().Limits.Escalate
}

// openApproval makes a call wait for a decision.
func (d *decision) openApproval(t *Task, call *Call, c Ask) {
	argument, cut := excerpt.Cut(c.Argument, maxArgument)
	a := &Approval{
		ID: ApprovalID(d.env.NewID()), Task: t.ID, Run: t.Run, Ref: call.Ref, Tool: call.Tool,
		Argument: argument, Cut: cut, Rules: c.rulesToName(d.session().Grants), State: ApprovalOpen, AskedAt: d.env.Now,
	}
	if wait := d.session().Limits.Approval; wait > 0 {
		a.Due = d.env.Now.Add(wait)
		d.setTimer(t, call.Ref, a.Due)
	}
	if url := d.session().OnApproval; url != "" {
		a.URL, a.CallDue = url, d.env.Now
	}
	call.State, call.Approval = CallAsking, a.ID
	d.view.touchCall(call)
	d.view.touchApproval(a)
	d.countAsking(t, 1)
	d.emit(t, ApprovalRequested{
		Approval: a.ID, Ref: a.Ref, Tool: a.Tool, Argument: a.Argument, Cut: a.Cut, Rules: a.Rules, Due: a.Due,
	})
}

// rulesToName gives the rules that an approval names: all of them, or as many as fit of those that
// are not granted yet.
func (c Ask) rulesToName(grants []string) []string {
	rules := slices.Clone(c.Rules)
	if len(rules) > maxRules {
		rules = slices.DeleteFunc(rules, func(r string) bool { return slices.Contains(grants, r) })
	}
	return rules[:min(len(rules), maxRules)]
}

func (d *decision) countAsking(t *Task, by int) {
	t.Asking += by
	d.view.touchTask(t)
	s := d.session()
	s.Asking += by
	d.view.changes.Session = s
}

func (c DecideApproval) needs(n *needs) {
	if a := n.approval(c.ID); a != nil && a.State == ApprovalOpen {
		t := n.task(a.Task)
		n.boundary(t)
		n.call(a.Task, a.Ref)
		if c.ForSession {
			n.othersAsking(t)
		}
	}
}

func (c DecideApproval) decide(d *decision) (Answer, error) {
	a := d.view.approval(c.ID)
	switch {
	case a == nil:
		return nil, ErrNoApproval.With("%s", c.ID)
	case c.ForSession && !c.Allow:
		return nil, ErrBadInput.With("scope APPROVAL_SCOPE_SESSION requires DECISION_ALLOW")
	case len(c.Message) > maxDetail:
		return nil, ErrTooLarge.With("the message has %d bytes, the limit is %d", len(c.Message), maxDetail)
	case a.State != ApprovalOpen && c.isSameDecision(a):
		return Decided{Approval: *a}, nil
	case a.State != ApprovalOpen:
		return nil, ErrDecided.With("it %s at %s", a.Outcome(), a.DecidedAt.UTC().Format(time.RFC3339))
	}
	t, call := d.view.task(a.Task), d.view.call(a.Task, a.Ref)
	a.ForSession, a.Message = c.ForSession, c.Message
	if !c.Allow {
		d.closeApproval(t, a, ApprovalDenied)
		d.emit(t, decidedEvent(a))
		d.denyCall(t, call, c.Message, DeniedByDecision, a)
		return Decided{Approval: *a}, nil
	}
	d.closeApproval(t, a, ApprovalAllowed)
	d.emit(t, decidedEvent(a))
	d.approveCall(t, call)
	if s := d.session(); c.ForSession {
		s.Grants = addGrants(s.Grants, a.Rules)
		d.allowGranted(c.Message)
	}
	return Decided{Approval: *a}, nil
}

// isSameDecision reports whether an approval was already decided in this way.
func (c DecideApproval) isSameDecision(a *Approval) bool {
	if c.Allow {
		return a.State == ApprovalAllowed && a.ForSession == c.ForSession
	}
	return a.State == ApprovalDenied
}

// Outcome describes the state of the approval.
func (a *Approval) Outcome() string {
	switch {
	case a.State == ApprovalAllowed && a.ForSession:
		return "was allowed for the session"
	case a.State == ApprovalAllowed:
		return "was allowed once"
	case a.State == ApprovalDenied:
		return "was denied"
	case a.State == ApprovalExpired:
		return "expired"
	case a.State == ApprovalWithdrawn:
		return "was withdrawn because its run ended"
	}
	return "is open"
}

// addGrants adds rules to those that a session has granted, in a new list.
func addGrants(grants, rules []string) []string {
	out := slices.Clone(grants)
	for _, r := range rules {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// closeApproval ends the wait for a decision. A callback that was not made yet is dropped, because
// the approval is no longer open.
func (d *decision) closeApproval(t *Task, a *Approval, state ApprovalState) {
	a.State, a.DecidedAt = state, d.env.Now
	d.view.touchApproval(a)
	d.dropCallTimer(a.Task, a.Ref)
	d.countAsking(t, -1)
}

func decidedEvent(a *Approval) ApprovalDecision {
	return ApprovalDecision{Approval: a.ID, Ref: a.Ref, State: a.State, ForSession: a.ForSession, Message: a.Message}
}

// approveCall lets a call run; a parked run wakes.
func (d *decision) approveCall(t *Task, call *Call) {
	call.State = CallApproved
	d.view.touchCall(call)
	if t.State == StateWaiting {
		d.wake(t)
	}
}

// denyCall closes a call with the denial of its approval.
func (d *decision) denyCall(t *Task, call *Call, why string, cause DenialCause, a *Approval) {
	if why == "" {
		why = "the call was not approved; do not try it again in another way"
	}
	call.Text, call.IsError = ErrApprovalDenied.name+": "+why, true // With would cut the message
	d.closeDenied(t, call, Denial{Cause: cause, Argument: a.Argument, Rules: a.Rules, Detail: why})
}

// expireApproval denies a call whose approval was not decided in time.
func (d *decision) expireApproval(t *Task, call *Call) {
	a := d.view.approval(call.Approval)
	d.closeApproval(t, a, ApprovalExpired)
	d.emit(t, ApprovalLapsed{Approval: a.ID, Ref: a.Ref})
	d.denyCall(t, call, fmt.Sprintf("nobody decided within %s", a.Due.Sub(a.AskedAt)), DeniedByExpiry, a)
}

// withdrawApproval withdraws the approval of a call whose run ends.
func (d *decision) withdrawApproval(t *Task, call *Call) {
	a := d.view.approval(call.Approval)
	d.closeApproval(t, a, ApprovalWithdrawn)
	d.emit(t, decidedEvent(a))
}

// approval asks for an approval.
func (n *needs) approval(id ApprovalID) *Approval {
	a, held := n.view.approvals[id]
	if !held && !slices.Contains(n.Approvals, id) {
		n.Approvals = append(n.Approvals, id)
	}
	return a
}

// openApprovals asks for the open approvals of a task, once its open calls are held.
func (n *needs) openApprovals(t *Task) {
	if t.Asking == 0 || !n.view.open[t.ID] {
		return
	}
	for _, c := range n.view.calls[t.ID] {
		if c != nil && c.State == CallAsking {
			n.approval(c.Approval)
		}
	}
}

// PutApproval gives the view a stored approval; nil: it does not exist.
func (v *View) PutApproval(id ApprovalID, a *Approval) {
	if _, held := v.approvals[id]; !held {
		set(&v.approvals, id, a)
	}
}

func (v *View) approval(id ApprovalID) *Approval {
	a, held := v.approvals[id]
	if !held {
		panic(fmt.Sprintf("tree: approval %s was not asked for", id))
	}
	return a
}

func (v *View) touchApproval(a *Approval) {
	set(&v.approvals, a.ID, a)
	set(&v.changes.Approvals, a.ID, a)
}
