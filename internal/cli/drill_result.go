package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// printUndisturbed prints the result of the tree without a fault.
func (a *app) printUndisturbed(baseline *drillResult, faults int) error {
	if a.json {
		return a.printDrill(baseline, "")
	}
	l := a.theme()
	return a.print(
		fmt.Sprintf("undisturbed: %s after %s, %s, %s, %s stored by workers", stateText(baseline.root.GetState()), durationText(baseline.elapsed),
			plural(int64(len(baseline.tasks)), "task"), baseline.spent.text("tokens"), plural(int64(baseline.steps.Total()), "step")),
		"again "+plural(int64(faults), "time")+", each in a separate installation:",
		"",
		l.dim.Render(fmt.Sprintf(resultFormat, "", "fault", "at", "result of the tree")),
	)
}

// resultFormat formats a line about a tree: number, fault, moment, result.
const resultFormat = "%3v  %-19v  %-38s  %s"

// maxEndText bounds the description of a task that ended differently than in the tree without a
// fault.
const maxEndText = 110

// printResult prints the result of a tree with a fault.
func (a *app) printResult(baseline, t *drillResult) error {
	verdict, bad := t.compare(baseline)
	if a.json {
		return a.printDrill(t, verdict)
	}
	l := a.theme()
	style := l.good
	if bad {
		style = l.bad
	}
	parts := []string{style.Render(verdict)}
	if n := t.redelivered; n > 0 {
		parts = append(parts, plural(n, "run")+" again")
	}
	if n := len(t.unknown); n > 0 {
		parts = append(parts, "outcome unknown: "+strings.Join(t.unknown, ", "))
	}
	if t.broken == nil {
		parts = append(parts, durationText(t.elapsed))
	}
	if err := a.print(fmt.Sprintf(resultFormat, t.number, t.fault.Victim, t.momentText(), strings.Join(parts, l.separator))); err != nil {
		return err
	}
	for _, end := range t.differingEnds(baseline) {
		if err := a.print(l.dim.Render("     " + ansi.Truncate(end, maxEndText, l.ellipsis))); err != nil {
			return err
		}
	}
	for _, v := range t.violations {
		if err := a.print(fmt.Sprintf("     task %s: %s: %s", v.GetTaskId(), safeLine(v.GetRule()), safeLine(v.GetDetail()))); err != nil {
			return err
		}
	}
	return nil
}

// printDrill prints the result of a tree as JSON.
func (a *app) printDrill(t *drillResult, verdict string) error {
	said := drillResultJSON{
		Number: t.number, Verdict: verdict, Tasks: len(t.tasks), Redelivered: t.redelivered,
		Unknown: t.unknown, Violations: len(t.violations), Seconds: float64(t.elapsed.Milliseconds()) / 1000,
	}
	if t.broken == nil {
		said.State = stateText(t.root.GetState())
	}
	if f := t.fault; f != nil {
		m := f.Moment
		said.Fault = &faultJSON{f.Victim.String(), m.Step.String(), m.N, m.After, t.struckIn(), t.struck != nil}
	} else {
		said.Steps = t.steps.Total()
	}
	line, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", line)
	return err
}

// drillResultJSON is the result of a tree; the first tree has no fault.
type drillResultJSON struct {
	Number      int        `json:"number"`
	Fault       *faultJSON `json:"fault,omitempty"`
	Verdict     string     `json:"verdict,omitempty"`
	State       string     `json:"state,omitempty"`
	Tasks       int        `json:"tasks"`
	Steps       int        `json:"steps,omitempty"`
	Redelivered int64      `json:"redelivered"`
	Unknown     []string   `json:"unknown,omitempty"`
	Violations  int        `json:"violations"`
	Seconds     float64    `json:"seconds"`
}

type faultJSON struct {
	Victim   string `json:"victim"`
	Step     string `json:"step"`
	N        int    `json:"n"`
	After    bool   `json:"after"`
	Agent    string `json:"agent,omitempty"`
	Happened bool   `json:"happened"`
}

// struckIn names the agent in whose run the fault happened; empty: unknown.
func (t *drillResult) struckIn() string {
	if t.struck == nil {
		return ""
	}
	return t.struck.Agent
}

// momentText says when the fault was to happen, and in whose run.
func (t *drillResult) momentText() string {
	switch agent := t.struckIn(); {
	case t.struck == nil && t.broken == nil:
		return t.fault.Moment.String() + ": did not come"
	case agent != "":
		return t.fault.Moment.String() + ", " + safeLine(agent)
	}
	return t.fault.Moment.String()
}

// compare compares a tree with the one without a fault, and reports whether the result is bad. A
// different answer is not bad, because models do not always give the same answer.
func (t *drillResult) compare(baseline *drillResult) (verdict string, bad bool) {
	switch {
	case t.broken != nil:
		return "broken: " + safeLine(t.broken.Error()), true
	case len(t.violations) > 0:
		return "breaks " + plural(int64(len(t.violations)), "rule"), true
	case t.root.GetState() != baseline.root.GetState():
		return strings.TrimSuffix(stateText(t.root.GetState())+": "+reasonText(t.root.GetReason(), t.root.GetDetail()), ": "), true
	case slices.Equal(t.tasks, baseline.tasks):
		return "the same", false
	case t.answer() == baseline.answer():
		return "the same answer, another tree", false
	}
	return "another answer", false
}

// differingEnds returns the ends that no task of the tree without a fault has. If the answers
// differ, most ends do, so only tasks that did not complete are returned.
func (t *drillResult) differingEnds(baseline *drillResult) (others []string) {
	if t.broken != nil {
		return nil
	}
	sameAnswer := t.answer() == baseline.answer()
	left := slices.Clone(baseline.tasks)
	for _, end := range t.tasks {
		if i := slices.Index(left, end); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else if sameAnswer || end.state != pb.TaskState_TASK_STATE_COMPLETED {
			others = append(others, end.text)
		}
	}
	return others
}

// drillSummary sums up all trees with a fault.
type drillSummary struct {
	trees, same, bad, notStruck int
	redelivered                 int64
	unknown, violations         int
}

func (s *drillSummary) add(baseline, t *drillResult) {
	verdict, bad := t.compare(baseline)
	s.trees++
	if bad {
		s.bad++
	}
	if verdict == "the same" {
		s.same++
	}
	if t.struck == nil && t.broken == nil {
		s.notStruck++
	}
	s.redelivered += t.redelivered
	s.unknown += len(t.unknown)
	s.violations += len(t.violations)
}

func (s *drillSummary) String() string {
	parts := []string{
		fmt.Sprintf("%d of %s the same as undisturbed", s.same, plural(int64(s.trees), "tree")),
		plural(s.redelivered, "run") + " delivered again",
		plural(int64(s.unknown), "unknown outcome"),
		plural(int64(s.violations), "violation"),
	}
	if s.bad > 0 {
		parts = append(parts, plural(int64(s.bad), "tree")+" gone wrong")
	}
	if s.notStruck > 0 {
		parts = append(parts, plural(int64(s.notStruck), "fault")+" did not come")
	}
	return strings.Join(parts, ", ")
}
