package own

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/bench/installation"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// transcript has one run read 100 files of 5 KB, one after another, and holds what is
// stored against what was said.
func transcript(ctx context.Context, l *Lab) error {
	const calls = 100
	if l.Kind == installation.Embedded {
		return l.transcriptAtRest(ctx, calls)
	}
	return l.with(ctx, installation.Options{Metered: true}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Reader, "read 1"); err != nil { // warm
			return err
		}
		before, err := stored(ctx, i)
		if err != nil {
			return err
		}
		counts := i.WorkersToOrchestrator.Counts()
		s, err := i.Do(ctx, installation.Reader, fmt.Sprint("read ", calls))
		if err != nil {
			return err
		}
		sent := i.WorkersToOrchestrator.Counts().Since(counts)
		content, err := said(ctx, i, s)
		if err != nil {
			return err
		}
		after, err := stored(ctx, i)
		if err != nil {
			return err
		}
		return errors.Join(
			l.Report("sent by the worker", "B", float64(sent.Up)),
			l.Report("sent to the worker", "B", float64(sent.Down)),
			l.reportStored(content, before, after))
	})
}

// transcriptAtRest is the same for SQLite, whose file is complete only once the process
// has ended: it compares one with a short transcript and one with a long one.
func (l *Lab) transcriptAtRest(ctx context.Context, calls int) error {
	var content [2]int
	var bytes [2]int64
	plain := *l
	plain.Profiles = "" // the process does not live long enough
	for n, reads := range []int{1, calls + 1} {
		err := plain.with(ctx, installation.Options{}, func(i *installation.Installation) error {
			s, err := i.Do(ctx, installation.Reader, fmt.Sprint("read ", reads))
			if err != nil {
				return err
			}
			if content[n], err = said(ctx, i, s); err != nil {
				return err
			}
			if err := i.Orchestrator().Stop(); err != nil {
				return err
			}
			bytes[n], err = size(filepath.Join(i.Dir, "data"), "coppice.db")
			return err
		})
		if err != nil {
			return err
		}
	}
	return l.reportStored(content[1]-content[0], bytes[0], bytes[1])
}

func (l *Lab) reportStored(content int, before, after int64) error {
	return errors.Join(
		l.Report("content", "B", float64(content)),
		l.Report("stored", "B", float64(after-before)),
		l.Report("stored, of the content", "", float64(after-before)/float64(content)))
}

// said is how many bytes the blocks of a transcript have.
func said(ctx context.Context, i *installation.Installation, s *pb.Session) (int, error) {
	pages, err := i.Tasks().GetTranscript(ctx, &pb.GetTranscriptRequest{SessionId: s.GetId(), TaskId: s.GetRootTaskId()})
	if err != nil {
		return 0, fmt.Errorf("reading a transcript: %w", err)
	}
	bytes, last := 0, 0
	for {
		page, err := pages.Recv()
		switch {
		case err != nil && last > 0 && errors.Is(err, io.EOF):
			return bytes, nil
		case err != nil:
			return 0, fmt.Errorf("reading a transcript: %w", err)
		}
		for _, m := range page.GetMessages() {
			last++
			for _, b := range m.GetBlocks() {
				bytes += len(b.GetText().GetText()) + len(b.GetToolUse().GetInputJson()) + len(b.GetToolUse().GetName()) +
					len(b.GetToolResult().GetText())
			}
		}
	}
}

// stored is how many bytes the tables have, with their indexes.
func stored(ctx context.Context, i *installation.Installation) (int64, error) {
	var bytes int64
	err := query(ctx, i, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'`, &bytes)
	return bytes, err
}

// size is that of all files of a directory whose names begin so.
func size(dir, prefix string) (int64, error) {
	bytes := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), prefix) {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// query asks the database for one row.
func query(ctx context.Context, i *installation.Installation, sql string, into ...any) error {
	conn, err := pgx.Connect(ctx, i.Postgres.URL("postgres"))
	if err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only asked
	if err := conn.QueryRow(ctx, sql).Scan(into...); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return nil
}
