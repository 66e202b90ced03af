package assembly_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
)

// onBoth runs a test against processes: on SQLite, and on PostgreSQL with two
// orchestrators. prepare, which may be nil, comes before they are started.
func onBoth(t *testing.T, scenario string, prepare func(*deployment), test func(*testing.T, *deployment)) {
	t.Helper()
	for _, name := range []string{"SQLite", "PostgreSQL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, scenario)
			if name == "PostgreSQL" {
				d.database = pgtest.Start(t).Database(t)
				d.addresses = append(d.addresses, proctest.FreeAddress(t))
			}
			if prepare != nil {
				prepare(d)
			}
			d.startAll()
			test(t, d)
		})
	}
}

// in names something in the directory of the deployment.
func (d *deployment) in(name string) string { return filepath.Join(d.dir, name) }

// write writes files, each a name and a text.
func (d *deployment) write(files ...string) {
	d.t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := d.in(files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
}

// killAll ends all processes as a crash would, starts them again, and waits until
// they serve.
func (d *deployment) killAll() *client {
	d.t.Helper()
	for name := range maps.Clone(d.processes) {
		d.kill(name)
	}
	d.startAll()
	c := d.client()
	if _, err := c.ListAgents(c.ctx(), &pb.ListAgentsRequest{}); err != nil {
		d.t.Fatal(err)
	}
	return c
}
