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
	metered := l.Kind == installation.Separate
	return l.with(ctx, installation.Options{Metered: metered}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Reader, "read 1"); err != nil { // warm
			return err
		}
		before, err := stored(ctx, i)
		if err != nil {
			return err
		}
		var counts installation.Counts
		if metered {
			counts = i.WorkersToOrchestrator.Counts()
		}
		s, err := i.Do(ctx, installation.Reader, fmt.Sprint("read ", calls))
		if err != nil {
			return err
		}
		if metered {
			sent := i.WorkersToOrchestrator.Counts().Since(counts)
			err := errors.Join(l.Report("sent by the worker", "B", float64(sent.Up)), l.Report("sent to the worker", "B", float64(sent.Down)))
			if err != nil {
				return err
			}
		}
		content, err := said(ctx, i, s)
		if err != nil {
			return err
		}
		after, err := stored(ctx, i)
		if err != nil {
			return err
		}
		return errors.Join(
			l.Report("content", "B", float64(content)),
			l.Report("stored", "B", float64(after-before)),
			l.Report("stored, of the content", "", float64(after-before)/float64(content)))
	})
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

// stored is how many bytes the database has: of PostgreSQL the tables with their
// indexes, of SQLite its file with what is still in its log.
func stored(ctx context.Context, i *installation.Installation) (int64, error) {
	if i.Kind == installation.Embedded {
		return size(filepath.Join(i.Dir, "data"), "coppice.db")
	}
	var bytes int64
	err := query(ctx, i, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'`, &bytes)
	return bytes, err
}

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
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql).Scan(into...); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return nil
}
