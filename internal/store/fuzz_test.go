package store_test

import (
	"path/filepath"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// FuzzPageTokens: whatever is given as a page token, one of another list or another
// tenant too, shows nobody anything but their own; it is refused or is a place in
// the list.
func FuzzPageTokens(f *testing.F) {
	db := running(f, store.Config{Database: filepath.Join(f.TempDir(), "coppice.db")})
	sessions := map[string][]tree.SessionID{}
	for range 3 {
		for _, tenant := range []string{"acme", "other"} {
			cmd := open(newSession())
			cmd.Tenant = tenant
			if _, err := db.Update(f.Context(), cmd.ID, cmd); err != nil {
				f.Fatal(err)
			}
			for range 3 {
				if _, err := db.Update(f.Context(), cmd.ID, spawn("work")); err != nil {
					f.Fatal(err)
				}
			}
			sessions[tenant] = append(sessions[tenant], cmd.ID)
		}
	}
	for tenant, ids := range sessions {
		page, err := db.Sessions(f.Context(), tenant, "", 1, nil)
		if err != nil || page.Next == "" {
			f.Fatalf("%q, %v", page.Next, err)
		}
		f.Add(page.Next)
		for _, id := range ids {
			page, err := db.Tasks(f.Context(), id, tree.TaskID{}, "", 2)
			if err != nil || page.Next == "" {
				f.Fatalf("%q, %v", page.Next, err)
			}
			f.Add(page.Next)
		}
	}
	f.Add("")
	f.Add("%%%")
	f.Add("________________________________")
	f.Fuzz(func(t *testing.T, token string) {
		shown, err := db.Sessions(t.Context(), "acme", token, 10, nil)
		if err != nil && tree.CodeOf(err) != tree.CodeInvalid || shown.Next != "" || len(shown.Rows) > 3 {
			t.Errorf("%d sessions, next %q, %v", len(shown.Rows), shown.Next, err)
		}
		for i := range shown.Rows {
			if tenant := shown.Rows[i].Tenant; tenant != "acme" {
				t.Errorf("a session of %s", tenant)
			}
		}
		mine := sessions["acme"][0]
		tasks, err := db.Tasks(t.Context(), mine, tree.TaskID{}, token, 10)
		if err != nil && tree.CodeOf(err) != tree.CodeInvalid || tasks.Next != "" || len(tasks.Rows) > 4 {
			t.Errorf("%d tasks, next %q, %v", len(tasks.Rows), tasks.Next, err)
		}
		for i := range tasks.Rows {
			if session := tasks.Rows[i].Session; session != mine {
				t.Errorf("a task of session %s", session)
			}
		}
	})
}
