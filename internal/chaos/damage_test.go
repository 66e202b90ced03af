package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// damage is a defect that the system does not have, shown as the evidence that it
// would leave.
type damage struct {
	name  string
	shape string // of the tree that it is done to
	rule  chaos.Rule
	do    func(*file)
}

// file is sound evidence that is being damaged.
type file struct {
	*testing.T
	*chaos.Evidence
}

// TestSeededBugs damages sound evidence of a real run in many ways. Each has to
// be found under its name.
func TestSeededBugs(t *testing.T) {
	t.Parallel()
	calm, found := record(t, false), record(t, true)
	for shape, e := range found.evidence {
		e.Undisturbed = chaos.TrajectoryOf(calm.evidence[shape])
	}
	for _, d := range slices.Concat(damagesOfLog(), damagesOfWork(), damagesOfClients(), damagesOfApprovals(), damagesOfConversations(), damagesOfWitnesses()) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			of := found
			if d.rule == chaos.Witnessed {
				of = calm // elsewhere answers are lost on the way
			}
			e := clone(of.evidence[d.shape])
			if broken := chaos.Check(e); len(broken) > 0 {
				t.Fatalf("it is not sound to begin with: %s", broken[0])
			}
			d.do(&file{t, e})
			broken := append(chaos.Check(e), chaos.CheckKeys(e.Records)...)
			if !slices.ContainsFunc(broken, func(v chaos.Violation) bool { return v.Rule == d.rule && v.Session == e.ID }) {
				t.Errorf("not found to break %q; found: %v", d.rule, broken)
			}
		})
	}
}

func clone(e *chaos.Evidence) *chaos.Evidence {
	out := *e
	out.Session = proto.CloneOf(e.Session)
	out.Tasks, out.Events = cloneAll(e.Tasks), cloneAll(e.Events)
	out.Transcripts = map[string][]*pb.Message{}
	for id, messages := range e.Transcripts {
		out.Transcripts[id] = cloneAll(messages)
	}
	out.Records = slices.Clone(e.Records)
	for i := range out.Records {
		out.Records[i].Digests = slices.Clone(out.Records[i].Digests)
	}
	return &out
}

func cloneAll[M proto.Message](all []M) []M {
	out := make([]M, len(all))
	for i, m := range all {
		out[i] = proto.CloneOf(m)
	}
	return out
}

// event finds an event; there has to be one.
func (f *file) event(is func(*pb.Event) bool) int {
	f.Helper()
	i := slices.IndexFunc(f.Events, is)
	if i < 0 {
		f.Fatal("there is no such event")
	}
	return i
}

// record finds a record; there has to be one.
func (f *file) record(is func(chaos.Record) bool) int {
	f.Helper()
	i := slices.IndexFunc(f.Records, is)
	if i < 0 {
		f.Fatal("there is no such record")
	}
	return i
}

func (f *file) kind(k chaos.Kind) int {
	f.Helper()
	return f.record(func(r chaos.Record) bool { return r.Kind == k })
}

// again adds a record again, changed.
func (f *file) again(i int, change func(*chaos.Record)) {
	r := f.Records[i]
	change(&r)
	f.Records = append(f.Records, r)
}

// forget takes a record away as if nobody had made it.
func (f *file) forget(i int) { f.Records = slices.Delete(f.Records, i, i+1) }

// drop takes an event out of the log as if it had never been.
func (f *file) drop(i int) {
	f.Events = slices.Delete(f.Events, i, i+1)
	f.renumber()
}

// insert puts an event into the log as if it had happened.
func (f *file) insert(i int, e *pb.Event) {
	f.Events = slices.Insert(f.Events, i, proto.CloneOf(e))
	f.renumber()
}

func (f *file) renumber() {
	for i, e := range f.Events {
		e.Seq = int64(i + 1)
	}
	f.Session.LastSeq = int64(len(f.Events))
}

func (f *file) task(id string) *pb.Task {
	return f.Tasks[slices.IndexFunc(f.Tasks, func(t *pb.Task) bool { return t.GetId() == id })]
}

// hadEffect tells whether the call that an approval was decided for had its effect.
func (f *file) hadEffect(decided *pb.Event) bool {
	call := decided.GetApprovalDecided().GetCall()
	return slices.ContainsFunc(f.Records, func(r chaos.Record) bool {
		return r.Kind == chaos.Effect && r.Task == decided.GetTaskId() && r.Ordinal+1 == call.GetMessage() && r.Block == call.GetBlock()
	})
}

// isChilds and the like pick events.
func isChilds(e *pb.Event) bool { return e.GetStarted().GetParentId() != "" }

func isResult(e *pb.Event) bool { return e.GetResult() != nil }

func isNews(e *pb.Event) bool { return e.GetMessage().GetNews() != nil }

func isClosedByChild(e *pb.Event) bool { return e.GetCallClosed().GetChild() != nil }

func isDecided(e *pb.Event) bool { return e.GetApprovalDecided() != nil }

func isBranch(e *pb.Event) bool { return e.GetBranchOpened() != nil }

func damagesOfLog() []damage {
	return []damage{
		{"seq gap", "wide", chaos.NoGap, func(f *file) {
			f.Events = slices.Delete(f.Events, 7, 8)
		}},
		{"event twice under one seq", "wide", chaos.NoGap, func(f *file) {
			f.Events = slices.Insert(f.Events, 7, f.Events[6])
		}},
		{"log ends early", "wide", chaos.NoGap, func(f *file) {
			f.Events = f.Events[:len(f.Events)-1]
		}},
		{"result lost", "wide", chaos.Terminal, func(f *file) { f.drop(f.event(isResult)) }},
		{"result twice", "deep", chaos.OneResult, func(f *file) {
			i := f.event(isResult)
			f.insert(i+1, f.Events[i])
		}},
		{"start lost", "deep", chaos.OneResult, func(f *file) { f.drop(f.event(isChilds)) }},
		{"wake dropped", "deep", chaos.Terminal, func(f *file) {
			parked := f.event(func(e *pb.Event) bool { return e.GetParked() != nil && e.GetTaskId() == f.Session.GetRootTaskId() })
			f.Events = slices.DeleteFunc(f.Events, func(e *pb.Event) bool {
				return e.GetTaskId() == f.Session.GetRootTaskId() && e.GetSeq() > f.Events[parked].GetSeq() && e.GetCallClosed() == nil
			})
			f.renumber()
			f.task(f.Session.GetRootTaskId()).State = pb.TaskState_TASK_STATE_WAITING
		}},
		{"task's row lost", "wide", chaos.LogTells, func(f *file) { f.Tasks = f.Tasks[:len(f.Tasks)-1] }},
		{"state overwritten", "wide", chaos.LogTells, func(f *file) {
			f.Tasks[1].State = pb.TaskState_TASK_STATE_FAILED
		}},
		{"watcher saw other bytes", "wide", chaos.SameLog, func(f *file) {
			seen := &f.Records[f.record(func(r chaos.Record) bool { return r.Kind == chaos.Watched && len(r.Digests) > 0 })]
			seen.Digests[0] = "0123456789abcdef"
		}},
		{"watcher told too early that nothing is left", "wide", chaos.Terminal, func(f *file) {
			f.Records = append(f.Records, chaos.Record{Kind: chaos.Watched, Session: f.ID, After: f.Events[f.event(isResult)].GetSeq() - 1, Idle: true})
		}},
		{"watcher saw what was rolled back", "wide", chaos.SameLog, func(f *file) {
			f.Records = append(f.Records, chaos.Record{
				Kind: chaos.Watched, Session: f.ID, After: f.Session.GetLastSeq(), Digests: []string{"0123456789abcdef"},
			})
		}},
		{"given up with its first worker", "wide", chaos.LastResort, func(f *file) {
			result := f.Events[f.event(isResult)].GetResult()
			result.State, result.Reason = pb.TaskState_TASK_STATE_FAILED, pb.Reason_REASON_POISONED
		}},
		{"usage counted twice", "noting", chaos.UsageAdds, func(f *file) { f.Tasks[1].Usage.InputTokens *= 2 }},
		{"usage of the tree is not its nodes'", "noting", chaos.UsageAdds, func(f *file) { f.Session.Usage.OutputTokens++ }},
		{"call of a model not counted", "noting", chaos.UsageAdds, func(f *file) { f.Session.ModelCalls-- }},
		{"budget overspent", "scarce", chaos.BudgetKept, func(f *file) { f.Session.Budget.Tokens /= 2 }},
		{"width cap exceeded", "crowded", chaos.CapsHold, func(f *file) { f.Limits.Width-- }},
		{"running cap exceeded", "crowded", chaos.CapsHold, func(f *file) {
			i := f.event(func(e *pb.Event) bool { return e.GetDispatched() != nil && e.GetTaskId() != f.Session.GetRootTaskId() })
			for n := range f.Limits.Running {
				dispatched := proto.CloneOf(f.Events[i])
				dispatched.TaskId = fmt.Sprint("another ", n)
				f.insert(i+1, dispatched)
			}
		}},
		{"the system finds something itself", "wide", chaos.Diagnosed, func(f *file) {
			f.Evidence.Diagnosed = []*pb.Violation{{SessionId: f.ID, Rule: "a parked run waits for something"}}
		}},
	}
}

func damagesOfWitnesses() []damage {
	return []damage{
		{"attempt that no witness saw", "deep", chaos.Witnessed, func(f *file) {
			f.forget(f.kind(chaos.Granted))
		}},
		{"message that no witness saw", "deep", chaos.Witnessed, func(f *file) {
			f.forget(f.kind(chaos.Appended))
		}},
	}
}

func damagesOfWork() []damage {
	return []damage{
		{"fence removed, two attempts both accepted", "deep", chaos.Fenced, func(f *file) {
			i := f.record(func(r chaos.Record) bool { return r.Kind == chaos.Ended && r.Epoch > 1 })
			f.Records[i].Epoch = 1
		}},
		{"stale result accepted", "noting", chaos.Fenced, func(f *file) {
			// The call is closed, but only after its attempt had been taken back.
			r := f.Records[f.kind(chaos.Closed)]
			i := f.event(func(e *pb.Event) bool {
				c := e.GetCallClosed().GetCall()
				return e.GetTaskId() == r.Task && c.GetMessage() == r.Ordinal && c.GetBlock() == r.Block
			})
			f.insert(i, &pb.Event{TaskId: r.Task, Run: 1, Kind: &pb.Event_Ready{Ready: &pb.TaskReady{
				Cause: pb.ReadyCause_READY_CAUSE_REDELIVERED, Epoch: r.Epoch + 1,
			}}})
		}},
		{"attempt continued after its end", "wide", chaos.Fenced, func(f *file) {
			i := f.record(func(r chaos.Record) bool { return r.Kind == chaos.Ended })
			f.again(i, func(r *chaos.Record) { r.Kind, r.Began = chaos.Reattached, r.At.Add(time.Minute) })
		}},
		{"attempt continues beside its successor", "deep", chaos.Fenced, func(f *file) {
			i := f.kind(chaos.Granted)
			f.again(i, func(r *chaos.Record) { r.Epoch++ })
			f.again(i, func(r *chaos.Record) { r.Kind, r.Began = chaos.Reattached, r.At.Add(time.Millisecond) })
		}},
		{"epoch given to two workers", "wide", chaos.OneAttempt, func(f *file) {
			f.again(f.kind(chaos.Granted), func(r *chaos.Record) { r.Nonce++ })
		}},
		{"epoch dispatched twice", "wide", chaos.OneAttempt, func(f *file) {
			i := f.event(func(e *pb.Event) bool { return e.GetDispatched() != nil })
			f.insert(i+1, f.Events[i])
		}},
		{"acknowledged message not stored", "wide", chaos.Stored, func(f *file) {
			f.again(f.kind(chaos.Appended), func(r *chaos.Record) { r.Ordinal = 99 })
		}},
		{"acknowledged result not stored", "wide", chaos.Stored, func(f *file) {
			f.again(f.kind(chaos.Closed), func(r *chaos.Record) { r.Block = 99 })
		}},
		{"acknowledged child not started", "deep", chaos.Stored, func(f *file) {
			f.again(f.kind(chaos.Spawned), func(r *chaos.Record) { r.Blocks = []int32{99} })
		}},
		{"answer stored with another content", "wide", chaos.Stored, func(f *file) {
			id := f.Records[f.kind(chaos.Ended)].Task
			messages := f.Transcripts[id]
			messages[len(messages)-1].Blocks[0] = &pb.Block{Kind: &pb.Block_Text{Text: &pb.TextBlock{Text: "other"}}}
		}},
		{"parent's call left open", "failing", chaos.ClosedOnce, func(f *file) { f.drop(f.event(isClosedByChild)) }},
		{"call closed twice", "failing", chaos.ClosedOnce, func(f *file) {
			i := f.event(isClosedByChild)
			f.insert(i+1, f.Events[i])
		}},
		{"call with two results", "failing", chaos.ClosedOnce, func(f *file) {
			tool := f.Transcripts[f.Session.GetRootTaskId()][2]
			tool.Blocks = append(tool.Blocks, tool.GetBlocks()[0])
		}},
		{"another child's end closes the call", "failing", chaos.ToldOnce, func(f *file) {
			f.Events[f.event(isClosedByChild)].GetCallClosed().Child.TaskId = f.Session.GetRootTaskId()
		}},
		{"notification lost", "background", chaos.ToldOnce, func(f *file) { f.drop(f.event(isNews)) }},
		{"notification twice", "background", chaos.ToldOnce, func(f *file) {
			i := f.event(isNews)
			f.insert(i+1, f.Events[i])
		}},
		{"result is not the child's answer", "wide", chaos.SameWords, func(f *file) {
			f.Transcripts[f.Session.GetRootTaskId()][2].Blocks[0].GetToolResult().Text = `{"status":"completed","summary":"Another one."}`
		}},
		{"news is not the child's answer", "background", chaos.SameWords, func(f *file) {
			e := f.Events[f.event(isNews)]
			for _, m := range f.Transcripts[e.GetTaskId()] {
				if m.GetOrdinal() == e.GetMessage().GetOrdinal() {
					m.Blocks = []*pb.Block{{Kind: &pb.Block_Text{Text: &pb.TextBlock{Text: `{"status":"completed"}`}}}}
				}
			}
		}},
		{"message kept from the model", "wide", chaos.Heard, func(f *file) {
			heard := f.Records[f.kind(chaos.MessageSent)]
			for _, m := range f.Transcripts[heard.Task] {
				if m.GetBlocks()[0].GetText().GetText() != heard.Key {
					continue
				}
				for i, r := range f.Records {
					if r.Kind == chaos.ModelCalled && r.Task == heard.Task && r.Ordinal >= m.GetOrdinal() {
						f.Records[i].Ordinal--
					}
				}
			}
		}},
		{"effect repeated silently", "noting", chaos.NoRepeat, func(f *file) {
			f.again(f.kind(chaos.Effect), func(*chaos.Record) {})
		}},
		{"effect claimed and never had", "noting", chaos.NoRepeat, func(f *file) {
			f.Records = slices.DeleteFunc(f.Records, func(r chaos.Record) bool { return r.Kind == chaos.Effect })
		}},
		{"model asked three times for one lost attempt", "wide", chaos.OneRepeat, func(f *file) {
			// Two more than there were, and one lost attempt to excuse one of them.
			r := f.Records[f.kind(chaos.ModelCalled)]
			i := f.event(func(e *pb.Event) bool { return e.GetTaskId() == r.Task && e.GetDispatched() != nil })
			f.insert(i+1, &pb.Event{TaskId: r.Task, Run: 1, Kind: &pb.Event_Ready{Ready: &pb.TaskReady{
				Cause: pb.ReadyCause_READY_CAUSE_REDELIVERED,
			}}})
			for range 2 {
				f.again(f.kind(chaos.ModelCalled), func(*chaos.Record) {})
			}
		}},
		{"transcript is not the script's", "noting", chaos.SameTrajectory, func(f *file) {
			f.Transcripts[f.Session.GetRootTaskId()][1].Blocks[0].GetToolUse().InputJson = `{}`
		}},
	}
}
