package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestKillPostgres: what was acknowledged before the server was killed is there,
// once; what was refused is not.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	db := replicas(t, server.Database(t), 1)[0]
	const writers, rounds = 16, 3
	ids := make([]tree.SessionID, writers)
	outcomes := make([]map[string]error, writers) // by description
	stop := make(chan struct{})
	progress := make(chan struct{}, 1<<16)
	var writing sync.WaitGroup
	for i := range ids {
		ids[i], outcomes[i] = newSession(), map[string]error{}
		if _, err := db.Update(t.Context(), ids[i], open(ids[i])); err != nil {
			t.Fatal(err)
		}
		writing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				cmd := spawn("work")
				cmd.Child.Description = fmt.Sprintf("task %d of %d", n, i)
				_, err := db.Update(t.Context(), ids[i], cmd)
				outcomes[i][cmd.Child.Description] = err
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	for range rounds {
		for range 10 * writers {
			<-progress
		}
		server.Kill()
		server.Restart()
	}
	for range 10 * writers {
		<-progress
	}
	close(stop)
	writing.Wait()
	for i, id := range ids {
		checkLog(t, db, id)
		tasks, err := db.Tree(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		stored := map[string]int{}
		for _, task := range tasks {
			stored[task.Description]++
		}
		for description, err := range outcomes[i] {
			n := stored[description]
			if err == nil && n != 1 || err != nil && n > 0 && !strings.Contains(err.Error(), "unknown") || n > 1 {
				t.Errorf("%s was answered %v, and is stored %d times", description, err, n)
			}
		}
	}
}
