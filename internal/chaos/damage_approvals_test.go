package chaos_test

import (
	"slices"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

func damagesOfApprovals() []damage {
	return []damage{
		{"effect without approval", "asking", chaos.AskedFirst, func(f *file) {
			i := f.event(func(e *pb.Event) bool { return isDecided(e) && f.hadEffect(e) })
			f.Events[i].GetApprovalDecided().State = pb.ApprovalState_APPROVAL_STATE_DENIED
		}},
		{"approval decided twice", "asking", chaos.AskedFirst, func(f *file) {
			i := f.event(isDecided)
			f.insert(i+1, f.Events[i])
		}},
		{"decision lost", "asking", chaos.Acknowledged, func(f *file) {
			r := f.Records[f.kind(chaos.Decided)]
			f.drop(f.event(func(e *pb.Event) bool { return e.GetApprovalDecided().GetApprovalId() == r.Key }))
		}},
		{"effect that nobody was asked for", "asking", chaos.AskedFirst, func(f *file) {
			id := f.Events[f.event(func(e *pb.Event) bool { return isDecided(e) && f.hadEffect(e) })].GetApprovalDecided().GetApprovalId()
			f.Events = slices.DeleteFunc(f.Events, func(e *pb.Event) bool {
				return e.GetApprovalRequested().GetApprovalId() == id || e.GetApprovalDecided().GetApprovalId() == id
			})
			f.renumber()
			for _, e := range f.Events {
				if isDecided(e) {
					e.GetApprovalDecided().Scope = pb.ApprovalScope_APPROVAL_SCOPE_ONCE
				}
			}
		}},
		{"decision taken for one of the session", "asking", chaos.AskedFirst, func(f *file) {
			f.Events[f.event(isDecided)].GetApprovalDecided().Scope = pb.ApprovalScope_APPROVAL_SCOPE_SESSION
			f.Records = slices.DeleteFunc(f.Records, func(r chaos.Record) bool { return r.Kind == chaos.Granting })
		}},
		{"decision for the session forgotten", "asking", chaos.Acknowledged, func(f *file) {
			f.Events[f.event(isDecided)].GetApprovalDecided().Scope = pb.ApprovalScope_APPROVAL_SCOPE_SESSION
		}},
	}
}
