package own

import (
	"testing"

	"github.com/coppice-run/coppice/bench/installation"
	"github.com/coppice-run/coppice/bench/services"
)

func TestWrittenCountsAtOnce(t *testing.T) {
	t.Parallel()
	postgres, err := services.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := postgres.Stop(); err != nil {
			t.Error(err)
		}
	})
	i := &installation.Installation{Postgres: postgres}
	count := func() int64 {
		n, err := writeTransactions(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := execute(t.Context(), i, "CREATE TABLE written (n int)"); err != nil {
		t.Fatal(err)
	}
	before := count()
	for _, sql := range []string{"INSERT INTO written VALUES (1)", "INSERT INTO written SELECT generate_series(2, 9)", "SELECT 1"} {
		if err := execute(t.Context(), i, sql); err != nil {
			t.Fatal(err)
		}
	}
	if n := count() - before; n != 2 {
		t.Errorf("two transactions have written something, and %d are counted", n)
	}
}
