package tree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/policy"
)

// permissions reads what a script says of what somebody may do.
func (s *script) permissions(words []string) policy.Permissions {
	var p policy.Permissions
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		lists := map[string]*[]policy.Rule{"allow": &p.Allow, "ask": &p.Ask, "deny": &p.Deny}
		switch list := lists[key]; {
		case list != nil:
			rule, err := policy.ParseRule(value)
			if err != nil {
				s.t.Fatal(err)
			}
			*list = append(*list, rule)
		case key == "mode":
			mode, err := policy.ParseMode(value)
			if err != nil {
				s.t.Fatal(err)
			}
			p.Mode = mode
		case key == "background":
			p.Background = append(p.Background, value)
		case key == "approvals":
			approvals, err := policy.ParseApprovals(value)
			if err != nil {
				s.t.Fatal(err)
			}
			p.Approvals = approvals
		}
	}
	return p
}

// text gives the text that is named.
func (s *script) text(words []string, name string) string {
	for _, w := range words {
		if text, ok := strings.CutPrefix(w, name+"="); ok {
			return text
		}
	}
	return ""
}

// answerTo reads approve A and deny A.
func (s *script) answerTo(words []string) Command {
	c := DecideApproval{Allow: words[0] == "approve", ForSession: slices.Contains(words, "session")}
	if text := words[len(words)-1]; len(words) > 2 && text != "session" {
		c.Message = text
	}
	ids := byApproval(s.db.approvals)
	n := s.number(strings.TrimPrefix(words[1], "a"))
	if n <= len(ids) {
		c.ID = ids[n-1]
	} else {
		c.ID = ApprovalID{1}
	}
	return c
}

func (s *script) approvalName(id ApprovalID) string {
	return fmt.Sprintf("a%d", slices.Index(byApproval(s.db.approvals), id)+1)
}

// callbackKey reads TASK run=N [of=APPROVAL].
func (s *script) callbackKey(words []string) CallbackKey {
	key := CallbackKey{Task: s.task(words[1]), Run: s.option(words, "run")}
	if of := s.text(words, "of"); of != "" {
		key.Approval = byApproval(s.db.approvals)[s.number(strings.TrimPrefix(of, "a"))-1]
	}
	return key
}

// approvalEvent says what has become of an approval.
func (s *script) approvalEvent(kind EventKind) string {
	switch k := kind.(type) {
	case ApprovalRequested:
		return fmt.Sprintf("asks in %s whether call %d.%d may run: %s", s.approvalName(k.Approval), k.Ref.Message, k.Ref.Block, strings.Join(k.Rules, ", "))
	case ApprovalDecision:
		a := Approval{State: k.State, ForSession: k.ForSession}
		return fmt.Sprintf("%s %s", s.approvalName(k.Approval), a.Outcome())
	case ApprovalLapsed:
		return s.approvalName(k.Approval) + " expired"
	}
	s.t.Fatalf("no event: %T", kind)
	return ""
}

// askedIn gives the block that a repeated request has asked about.
func (s *script) askedIn(words []string) *int {
	if s.text(words, "asked") == "" {
		return nil
	}
	block := s.number(s.text(words, "asked"))
	return &block
}
