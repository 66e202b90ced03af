package store_test

import (
	"encoding/base64"
	"path/filepath"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestTokensAreOfOneList: the token of a page goes on with its list, and no other one takes it:
// not another kind, nor another tenant's, session's, parent's or filter's. One of the release
// before, which does not say what it is of, is still taken.
func TestTokensAreOfOneList(t *testing.T) {
	t.Parallel()
	db := running(t, store.Config{Database: filepath.Join(t.TempDir(), "coppice.db")})
	var session tree.SessionID
	for range 2 {
		cmd := open(newSession())
		cmd.Tenant = "acme"
		if _, err := db.Update(t.Context(), cmd.ID, cmd); err != nil {
			t.Fatal(err)
		}
		session = cmd.ID
	}
	if _, err := db.Update(t.Context(), session, spawn("work")); err != nil {
		t.Fatal(err)
	}
	type list func(token string) (next string, err error)
	sessions := func(tenant string, filter map[string]string) list {
		return func(token string) (string, error) {
			page, err := db.Sessions(t.Context(), tenant, token, 1, filter)
			return page.Next, err
		}
	}
	tasks := func(session tree.SessionID, parent tree.TaskID) list {
		return func(token string) (string, error) {
			page, err := db.Tasks(t.Context(), session, parent, token, 1)
			return page.Next, err
		}
	}
	approvals := func(all bool) list {
		return func(token string) (string, error) {
			page, err := db.SessionApprovals(t.Context(), session, all, token, 1)
			return page.Next, err
		}
	}
	ofSessions, ofTasks := sessions("acme", nil), tasks(session, tree.TaskID{})
	for _, of := range []list{ofSessions, ofTasks} {
		token, err := of("")
		if err != nil || token == "" {
			t.Fatalf("the token of the first page is %q, %v", token, err)
		}
		if _, err := of(token); err != nil {
			t.Errorf("its own list: %v", err)
		}
		data, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := of(base64.RawURLEncoding.EncodeToString(data[:24])); err != nil {
			t.Errorf("a token of the release before: %v", err)
		}
	}
	page, _ := ofSessions("")
	task, _ := ofTasks("")
	for name, c := range map[string]struct {
		token string
		list  list
	}{
		"tasks":               {page, ofTasks},
		"approvals":           {page, approvals(false)},
		"another tenant":      {page, sessions("other", nil)},
		"another filter":      {page, sessions("acme", map[string]string{"a": "b"})},
		"sessions":            {task, ofSessions},
		"another session":     {task, tasks(tree.SessionID{1}, tree.TaskID{})},
		"another parent":      {task, tasks(session, tree.TaskID{1})},
		"approvals of a task": {task, approvals(true)},
		"one byte less":       {page[:len(page)-2], ofSessions},
	} {
		if next, err := c.list(c.token); tree.CodeOf(err) != tree.CodeInvalid {
			t.Errorf("%s: %q, %v", name, next, err)
		}
	}
}
