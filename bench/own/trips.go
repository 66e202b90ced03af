package own

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-run/coppice/bench/installation"
)

// traffic is what an installation has sent so far.
type traffic struct {
	written                        int64            // transactions
	commands                       map[string]int64 // of Redis
	database, redis, hints, stream installation.Counts
}

// measureTrips measures the write transactions, commands and bytes per task, in a fan-out of
// 1,000 and in 200 rounds of one child.
func measureTrips(ctx context.Context, l *Lab) error {
	return l.withInstallation(ctx, installation.Options{Metered: true}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Parent, "fan 100"); err != nil { // warm
			return err
		}
		for _, load := range []struct {
			name, prompt   string
			tasks, answers int
		}{{"fan-out of 1,000", "fan 1000", 1000, 1002}, {"rounds", "rounds 200", 200, 401}} {
			before, err := look(ctx, i)
			if err != nil {
				return err
			}
			s, err := i.Do(ctx, installation.Parent, load.prompt)
			if err != nil {
				return err
			}
			after, err := look(ctx, i)
			if err != nil {
				return err
			}
			if err := i.CheckCounts(ctx, s, 1+load.tasks, load.answers); err != nil {
				return err
			}
			if err := l.reportTraffic(load.name, before, after, float64(load.tasks)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Lab) reportTraffic(name string, before, after traffic, tasks float64) error {
	errs := []error{l.Report(name+", transactions that write", "/task", float64(after.written-before.written)/tasks)}
	for _, way := range []struct {
		name          string
		before, after installation.Counts
	}{
		{"orchestrator to database", before.database, after.database},
		{"orchestrator to Redis", before.redis, after.redis},
		{"worker to Redis", before.hints, after.hints},
		{"worker to orchestrator", before.stream, after.stream},
	} {
		c := way.after.Since(way.before)
		errs = append(errs,
			l.Report(fmt.Sprintf("%s, %s, round trips", name, way.name), "/task", float64(c.RoundTrips)/tasks),
			l.Report(fmt.Sprintf("%s, %s, there", name, way.name), "B/task", float64(c.Up)/tasks),
			l.Report(fmt.Sprintf("%s, %s, back", name, way.name), "B/task", float64(c.Down)/tasks))
	}
	for command, calls := range after.commands {
		if n := calls - before.commands[command]; n > 0 {
			errs = append(errs, l.Report(name+", Redis "+command, "/task", float64(n)/tasks))
		}
	}
	return errors.Join(errs...)
}

func look(ctx context.Context, i *installation.Installation) (traffic, error) {
	t := traffic{
		database: i.ToDatabase.Counts(), redis: i.ToRedis.Counts(),
		hints: i.WorkersToRedis.Counts(), stream: i.WorkersToOrchestrator.Counts(),
	}
	var err error
	if t.written, err = writeTransactions(ctx, i); err != nil {
		return t, err
	}
	t.commands, err = redisCommands(ctx, i)
	return t, err
}

// writeTransactions returns the number of transactions so far that wrote. It uses their ids,
// which are current. PostgreSQL's statistics of transactions are up to ten seconds late.
func writeTransactions(ctx context.Context, i *installation.Installation) (n int64, err error) {
	err = query(ctx, i, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`, &n)
	return n, err
}

// redisCommands counts the calls of each command.
func redisCommands(ctx context.Context, i *installation.Installation) (map[string]int64, error) {
	client := i.Redis.Client()
	defer client.Close()
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, fmt.Errorf("asking Redis: %w", err)
	}
	counts := map[string]int64{}
	for line := range strings.Lines(text) {
		// cmdstat_xadd:calls=12,usec=…
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if counts[name], err = strconv.ParseInt(calls, 10, 64); err != nil {
			return nil, fmt.Errorf("reading what Redis counts: %w", err)
		}
	}
	return counts, nil
}
