package chaos

import (
	"encoding/json"
	"slices"
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// checkWords: what a parent hears of the end of a child contains the child's answer.
func (c *checker) checkWords() {
	for _, l := range c.hist.order {
		for call, closings := range l.closed {
			said := c.answerOf(childOf(closings[0].GetCallClosed().GetChild()))
			for _, r := range c.results(l.id, call.message) {
				heard := r.GetBlock() != call.block || strings.Contains(r.GetText(), said)
				c.require(heard, SameWords, l.id, "call %d.%d was closed by a child that said %s, its result is %s", call.message, call.block, said, r.GetText())
			}
		}
		for child, told := range l.news {
			said := c.answerOf(child)
			m := c.message(l.id, told[0].GetMessage().GetOrdinal())
			c.require(m == nil || strings.Contains(textOf(m), said), SameWords, l.id,
				"message %d is news of a child that said %s, and says %s", m.GetOrdinal(), said, textOf(m))
		}
	}
}

// answerOf returns the text with which a run completed, as it is in JSON; empty if there is none.
func (c *checker) answerOf(run childRun) string {
	l := c.taskHistory(run.task)
	if run.run < 1 || int(run.run) > len(l.results) {
		return ""
	}
	end := l.results[run.run-1].GetResult()
	messages := c.Transcripts[run.task]
	i := slices.IndexFunc(messages, func(m *pb.Message) bool { return m.GetId() == end.GetMessageId() })
	if i < 0 || end.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		return ""
	}
	text, err := json.Marshal(textOf(messages[i]))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
