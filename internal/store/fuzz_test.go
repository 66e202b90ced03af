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
		_, token, err := db.Sessions(f.Context(), tenant, "", 1, nil)
		if err != nil || token == "" {
			f.Fatalf("%q, %v", token, err)
		}
		f.Add(token)
		for _, id := range ids {
			_, token, err := db.Tasks(f.Context(), id, tree.TaskID{}, "", 2)
			if err != nil || token == "" {
				f.Fatalf("%q, %v", token, err)
			}
			f.Add(token)
		}
	}
	f.Add("")
	f.Add("%%%")
	f.Add("________________________________")
	f.Fuzz(func(t *testing.T, token string) {
		shown, next, err := db.Sessions(t.Context(), "acme", token, 10, nil)
		if err != nil && tree.CodeOf(err) != tree.CodeInvalid || next != "" || len(shown) > 3 {
			t.Errorf("%d sessions, next %q, %v", len(shown), next, err)
		}
		for i := range shown {
			if shown[i].Tenant != "acme" {
				t.Errorf("a session of %s", shown[i].Tenant)
			}
		}
		mine := sessions["acme"][0]
		tasks, next, err := db.Tasks(t.Context(), mine, tree.TaskID{}, token, 10)
		if err != nil && tree.CodeOf(err) != tree.CodeInvalid || next != "" || len(tasks) > 4 {
			t.Errorf("%d tasks, next %q, %v", len(tasks), next, err)
		}
		for i := range tasks {
			if tasks[i].Session != mine {
				t.Errorf("a task of session %s", tasks[i].Session)
			}
		}
	})
}
