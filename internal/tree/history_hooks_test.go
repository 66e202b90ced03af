package tree

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"
)

// hooksRan draws what hooks have come to.
func (h *history) hooksRan(event HookEvent) []HookRun {
	var ran []HookRun
	for range h.rng.IntN(3) {
		ran = append(ran, HookRun{
			Event: event, Name: "hook", Matcher: "*", Output: "look again",
			Outcome: pick(h, weighted[HookOutcome]{10, HookPassed}, weighted[HookOutcome]{10, HookBlocked}, weighted[HookOutcome]{3, HookFailed}, weighted[HookOutcome]{1, HookOverruled}),
		})
	}
	return ran
}

func (h *history) startHooks(f From) Command {
	return StartHooks{From: f, Ran: h.hooksRan(SubagentStart)}
}

func (h *history) stopHooks(f From) Command {
	return StopHooks{
		From: f, Ran: h.hooksRan(SubagentStop),
		Answer: &Message{Usage: h.usage(), Blocks: []Block{Text{Text: "done"}}},
	}
}

// callback takes or settles a callback that is there, or was a moment ago.
func (h *history) callback() Command {
	all := h.callbacks()
	if len(all) == 0 {
		return TakeCallback{CallbackKey: CallbackKey{Task: h.aTask(), Run: 1}, Lease: time.Second, MaxTries: 3}
	}
	c := oneOf(h, all)
	if h.often(50) {
		return TakeCallback{CallbackKey: c.Key(), Lease: 2 * time.Second, MaxTries: 3}
	}
	return SettleCallback{
		CallbackKey: c.Key(), Try: c.Tries - h.rng.IntN(2)*h.rng.IntN(2), MaxTries: 3,
		Delivered: h.often(40), Final: h.often(10), Retry: time.Second, Detail: "no answer",
	}
}

// callbacks are those of runs that have ended, and those of approvals, also of decided ones.
func (h *history) callbacks() (all []Callback) {
	runs := slices.SortedFunc(maps.Keys(h.db.callbacks), func(a, b ChildRun) int {
		return cmp.Or(bytes.Compare(a.Task[:], b.Task[:]), a.Run-b.Run)
	})
	for _, run := range runs {
		all = append(all, h.db.callbacks[run])
	}
	for _, id := range byApproval(h.db.approvals) {
		a := h.db.approvals[id]
		all = append(all, Callback{Task: a.Task, Run: a.Run, Approval: id, Tries: a.Tries})
	}
	return all
}
