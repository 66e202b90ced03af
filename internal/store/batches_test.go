package store_test

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
)

// TestManyOldBatches: after an installation was stopped for long, the transactions of its last hour
// are forgotten over several heartbeats. Otherwise none might be over in time.
func TestManyOldBatches(t *testing.T) {
	t.Parallel()
	const old, ofBeat = 25_000, 10_000
	url := pgtest.Start(t).Database(t)
	db, conn := replicas(t, url, 1)[0], connect(t, url)
	const add = `INSERT INTO batches (id, at)
		SELECT substring(int8send(ms) FROM 3) || decode(md5(n::text), 'hex'), 1000 * ms
		FROM (SELECT n, (extract(epoch FROM now()) * 1000)::bigint - 7200000 + n AS ms FROM generate_series(1, $1) AS n) AS made`
	if _, err := conn.Exec(t.Context(), add, old); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{old - ofBeat, old - 2*ofBeat, 0} {
		if _, err := db.Heartbeat(t.Context(), "replica-0", 0, time.Minute); err != nil {
			t.Fatal(err)
		}
		var left int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM batches WHERE at < 1000000 * (extract(epoch FROM now()) - 3600)").Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left != want {
			t.Errorf("%d old batches are left, want %d", left, want)
		}
	}
}
