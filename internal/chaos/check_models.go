package chaos

import pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"

// boundary is a place in a conversation at which a model is called: after a message.
type boundary struct {
	task    string
	ordinal int32
}

// boundaries counts the model calls of a kind.
func (c *checker) boundaries(kind Kind) map[boundary]int {
	calls := map[boundary]int{}
	for _, r := range c.recordsOf(kind) {
		calls[boundary{r.Task, r.Ordinal}]++
	}
	return calls
}

// checkModelCalls: the model is called once at each boundary, and once more for each attempt
// that was lost there. So it is for a summary; where its attempt was lost is not known, and a run
// that was cancelled may have asked for one that the next run asks for again.
func (c *checker) checkModelCalls() {
	for b, n := range c.boundaries(ModelCalled) {
		lost := c.taskHistory(b.task).losses[b.ordinal]
		c.require(n <= 1+lost, OneRepeat, b.task, "after message %d the model was asked %d times, and %d attempts were lost", b.ordinal, n, lost)
	}
	for b, n := range c.boundaries(SummaryDue) {
		l := c.taskHistory(b.task)
		lost, cancelled := l.lostAttempts(), l.cancelledRuns()
		c.require(n <= 1+lost+cancelled, OneRepeat, b.task, "the model was asked to sum up message %d %d times, %d attempts were lost, and %d runs cancelled",
			b.ordinal, n, lost, cancelled)
	}
}

// checkHeard: a model has answered all that is before its answer, and not what was there earlier.
func (c *checker) checkHeard() {
	asked := c.boundaries(ModelCalled)
	for task := range c.Transcripts {
		if c.taskHistory(task).isCommand {
			continue
		}
		for _, m := range c.transcript(task) {
			answers := m.GetRole() == pb.Role_ROLE_ASSISTANT
			c.require(!answers || asked[boundary{task, m.GetOrdinal() - 1}] > 0, Heard, task,
				"message %d is an answer, and no model was shown all messages before it", m.GetOrdinal())
		}
	}
}
