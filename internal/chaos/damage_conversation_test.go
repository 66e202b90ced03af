package chaos_test

import (
	"strings"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// damagesOfConversations are those of conversations that were summed up or imported, to which hooks
// object, or which are the output of a command.
func damagesOfConversations() []damage {
	isSummary := func(m *pb.Message) bool { return m.GetSumsUpTo() > 0 }
	says := func(text string) func(*pb.Message) bool {
		return func(m *pb.Message) bool { return strings.Contains(m.GetBlocks()[0].GetText().GetText(), text) }
	}
	return []damage{
		{"objection of a hook changed", "hooked", chaos.SameTrajectory, func(f *file) {
			f.message(says("Look again.")).Blocks[0].GetText().Text = "Look elsewhere."
		}},
		{"output of a command changed", "commanding", chaos.Stored, func(f *file) {
			f.message(says("in vain\n")).Blocks[0].GetText().Text = "with success\n"
		}},
		{"summary stored with another content", "summing", chaos.Stored, func(f *file) {
			f.message(isSummary).Blocks[0].GetText().Text = "It was about something else."
		}},
		{"summary that no model call has made", "summing", chaos.Stored, func(f *file) {
			f.message(isSummary).Usage = nil
		}},
		{"summary asked for too often", "summing", chaos.OneRepeat, func(f *file) {
			for range 1 + len(f.Events) { // there are fewer lost attempts
				f.again(f.kind(chaos.SummaryDue), func(*chaos.Record) {})
			}
		}},
		{"imported messages lost", imported, chaos.Acknowledged, func(f *file) {
			f.Events[f.event(func(e *pb.Event) bool { return e.GetImported() != nil })].GetImported().Messages--
			f.Transcripts[f.Session.GetRootTaskId()] = f.Transcripts[f.Session.GetRootTaskId()][1:]
		}},
		{"imported messages paid for", imported, chaos.UsageAdds, func(f *file) {
			f.Session.ModelCalls++
		}},
		{"imported message changed", imported, chaos.SameTrajectory, func(f *file) {
			f.Transcripts[f.Session.GetRootTaskId()][0].Blocks[0].GetText().Text = "What was here?"
		}},
	}
}

// message finds a message of any task; there has to be one.
func (f *file) message(is func(*pb.Message) bool) *pb.Message {
	f.Helper()
	for _, messages := range f.Transcripts {
		for _, m := range messages {
			if is(m) {
				return m
			}
		}
	}
	f.Fatal("there is no such message")
	return nil
}
