package chaos

import (
	"fmt"
	"slices"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Rule is an invariant that must hold whatever process dies.
type Rule string

// The rules.
const (
	Acknowledged   Rule = "what a client was acknowledged exists"
	Terminal       Rule = "everything ends"
	OneResult      Rule = "a run starts once, before all else, and has one result, after all else"
	NoGap          Rule = "the log has no gap"
	SameLog        Rule = "a watcher sees the log, byte for byte"
	OneAttempt     Rule = "an epoch is one attempt"
	Fenced         Rule = "only the current attempt changes a run"
	Stored         Rule = "what a worker was acknowledged is stored once, as it was said"
	CancelHolds    Rule = "nothing below a cancel is dispatched after it was acknowledged"
	ClosedOnce     Rule = "a call is closed once and has one result"
	ToldOnce       Rule = "a child's result reaches its parent once"
	SameWords      Rule = "what a parent hears of a child's end is what the child said"
	Heard          Rule = "a model answers all that was said before"
	UsageAdds      Rule = "usage is the sum of what was said"
	BudgetKept     Rule = "a tree uses less than its budget and one call"
	OneRepeat      Rule = "a lost attempt costs one model call at most"
	NoRepeat       Rule = "no effect is repeated"
	AskedFirst     Rule = "what needs an approval has its effect only once it was allowed"
	CapsHold       Rule = "caps hold at each moment"
	KeysHold       Rule = "a repeated key does nothing twice"
	LastResort     Rule = "a run is given up only after three workers in a row were lost with it"
	SameTrajectory Rule = "transcripts are those of an undisturbed run"
	LogTells       Rule = "the log tells what is stored"
	Diagnosed      Rule = "the system finds nothing wrong with itself"
	Witnessed      Rule = "where nothing is broken, all that workers say is witnessed"
)

// Violation is a broken rule, with the ids for looking it up.
type Violation struct {
	Rule    Rule
	Session string
	Task    string // empty: the whole session
	Detail  string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: session %s, task %s: %s", v.Rule, v.Session, v.Task, v.Detail)
}

// Check checks a session against all rules.
func Check(e *Evidence) []Violation {
	c := &checker{Evidence: e, hist: historyOf(e.Events)}
	if e.Session == nil {
		for _, r := range e.Records {
			c.require(false, Acknowledged, r.Task, "the session is not known, and %s %s was acknowledged at %s", r.Kind, r.Key, r.At)
		}
		return c.violations
	}
	for _, examine := range []func(){
		c.checkLog, c.checkRuns, c.checkPoisoned, c.checkEnds, c.checkStored, c.checkWatched, c.checkClients, c.checkCancels, c.checkAbandoned, c.checkAttempts, c.checkReattached, c.checkAccepted,
		c.checkWitnessed, c.checkCalls, c.checkChildren, c.checkWords, c.checkHeard, c.checkUsage, c.checkModelCalls, c.checkEffects,
		c.checkApprovals, c.checkAsked, c.checkBranches, c.checkCaps, c.checkTrajectory, c.checkDiagnosed,
	} {
		examine()
	}
	return c.violations
}

// CheckKeys checks that requests with the same key always got the same answer. Sessions have keys of
// their own for what is done to them.
func CheckKeys(records []Record) []Violation {
	c := &checker{Evidence: &Evidence{}}
	first := map[[3]string]Record{}
	for _, r := range records {
		if r.Key == "" {
			continue
		}
		key := [3]string{string(r.Kind), r.Session, r.Key}
		if r.Kind == Created || r.Kind == Imported {
			key[1] = ""
		}
		known, again := first[key]
		if !again {
			first[key] = r
			continue
		}
		c.ID = r.Session
		c.require(r.Session == known.Session && r.Task == known.Task, KeysHold, r.Task,
			"%s %s was session %s task %s before", r.Kind, r.Key, known.Session, known.Task)
	}
	return c.violations
}

// checker checks one session.
type checker struct {
	*Evidence
	hist       *sessionHistory
	violations []Violation
}

func (c *checker) require(ok bool, rule Rule, task, format string, args ...any) {
	if !ok {
		c.violations = append(c.violations, Violation{Rule: rule, Session: c.ID, Task: task, Detail: fmt.Sprintf(format, args...)})
	}
}

// recordsOf returns the records of some kinds.
func (c *checker) recordsOf(kinds ...Kind) []Record {
	var out []Record
	for _, r := range c.Records {
		if slices.Contains(kinds, r.Kind) {
			out = append(out, r)
		}
	}
	return out
}

// taskHistory returns what the log says about a task; an empty history if nothing.
func (c *checker) taskHistory(task string) *taskHistory {
	if l := c.hist.tasks[task]; l != nil {
		return l
	}
	return &taskHistory{id: task}
}

// message returns a message of a transcript, or nil.
func (c *checker) message(task string, ordinal int32) *pb.Message {
	for _, m := range c.Transcripts[task] {
		if m.GetOrdinal() == ordinal {
			return m
		}
	}
	return nil
}

// transcript returns the messages of a task that were said in the session.
func (c *checker) transcript(task string) []*pb.Message {
	all := c.Transcripts[task]
	return all[min(int(c.taskHistory(task).imported), len(all)):]
}

// root returns the id of the root task.
func (c *checker) root() string { return c.Session.GetRootTaskId() }

// checkDiagnosed adds what the system reports about itself.
func (c *checker) checkDiagnosed() {
	for _, v := range c.Diagnosed {
		c.require(false, Diagnosed, v.GetTaskId(), "%s: %s", v.GetRule(), v.GetDetail())
	}
}
