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

// texts are the contents that transcripts are measured with: text like agents read it, and text
// that hardly compresses.
var texts = []string{"source", "noise"}

// transcript lets one run read 100 files of 5 KB, one after another, and compares the stored
// size with that of the content.
func transcript(ctx context.Context, l *Lab) error {
	const calls = 100
	if l.Kind == installation.Embedded {
		begun, err := l.sizesAtRest(ctx, installation.Reader, "source 1")
		for _, text := range texts {
			if err != nil {
				return err
			}
			var ended kept
			if ended, err = l.sizesAtRest(ctx, installation.Reader, fmt.Sprint(text, " ", calls+1)); err == nil {
				err = l.reportStored(text, ended.since(begun))
			}
		}
		return err
	}
	return l.withInstallation(ctx, installation.Options{Metered: true}, func(i *installation.Installation) error {
		if err := i.WriteTexts(ctx); err != nil {
			return err
		}
		if _, err := i.Do(ctx, installation.Reader, "source 1"); err != nil { // warm
			return err
		}
		for _, text := range texts {
			counts := i.WorkersToOrchestrator.Counts()
			grown, err := measureGrowth(ctx, i, installation.Reader, fmt.Sprint(text, " ", calls))
			if err != nil {
				return err
			}
			sent := i.WorkersToOrchestrator.Counts().Since(counts)
			err = errors.Join(
				l.Report(text+": sent by the worker", "B", float64(sent.Up)),
				l.Report(text+": sent to the worker", "B", float64(sent.Down)),
				l.reportStored(text, grown))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// children measures what is stored for a child with a minimal answer.
func children(ctx context.Context, l *Lab) error {
	const many = 1000
	fan := fmt.Sprint("fan ", many)
	report := func(grown kept, err error) error {
		if err != nil {
			return err
		}
		return l.Report("stored", "B/task", float64(grown.bytes)/many)
	}
	if l.Kind == installation.Embedded {
		begun, err := l.sizesAtRest(ctx, installation.Parent, "fan 1")
		if err != nil {
			return err
		}
		ended, err := l.sizesAtRest(ctx, installation.Parent, fan)
		return report(ended.since(begun), err)
	}
	return l.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
		// Space that the queues of a tree have used is reused by later trees: that of tables
		// after one vacuum, that of indexes after two.
		for range 2 {
			if _, err := i.Do(ctx, installation.Parent, fan); err != nil {
				return err
			}
			if err := execute(ctx, i, "VACUUM"); err != nil {
				return err
			}
		}
		return report(measureGrowth(ctx, i, installation.Parent, fan))
	})
}

// kept is the size of the content and of what is stored, in bytes.
type kept struct {
	content int
	bytes   int64
}

func (k kept) since(before kept) kept {
	return kept{k.content - before.content, k.bytes - before.bytes}
}

// measureGrowth returns what a session adds.
func measureGrowth(ctx context.Context, i *installation.Installation, agent, prompt string) (grown kept, err error) {
	before, err := storedBytes(ctx, i)
	if err != nil {
		return grown, err
	}
	s, err := i.Do(ctx, agent, prompt)
	if err != nil {
		return grown, err
	}
	if grown.content, err = transcriptBytes(ctx, i, s); err != nil {
		return grown, err
	}
	after, err := storedBytes(ctx, i)
	grown.bytes = after - before
	return grown, err
}

// sizesAtRest returns the sizes after one session with SQLite. Its file is complete only when
// the process has ended.
func (l *Lab) sizesAtRest(ctx context.Context, agent, prompt string) (k kept, err error) {
	plain := *l
	plain.Profiles = "" // the process is too short-lived
	err = plain.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
		if agent == installation.Reader {
			if err := i.WriteTexts(ctx); err != nil {
				return err
			}
		}
		s, err := i.Do(ctx, agent, prompt)
		if err != nil {
			return err
		}
		if k.content, err = transcriptBytes(ctx, i, s); err != nil {
			return err
		}
		if err := i.Orchestrator().Stop(); err != nil {
			return err
		}
		k.bytes, err = size(filepath.Join(i.Dir, "data"), "coppice.db")
		return err
	})
	return k, err
}

func (l *Lab) reportStored(text string, k kept) error {
	return errors.Join(
		l.Report(text+": content", "B", float64(k.content)),
		l.Report(text+": stored", "B", float64(k.bytes)),
		l.Report(text+": stored, of the content", "", float64(k.bytes)/float64(k.content)))
}

// transcriptBytes returns the size of the blocks of a transcript.
func transcriptBytes(ctx context.Context, i *installation.Installation, s *pb.Session) (int, error) {
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

// storedBytes returns the size of the tables with their indexes, after a vacuum. A database in
// use vacuums itself every few minutes.
func storedBytes(ctx context.Context, i *installation.Installation) (int64, error) {
	if err := execute(ctx, i, "VACUUM"); err != nil {
		return 0, err
	}
	var bytes int64
	err := query(ctx, i, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'`, &bytes)
	return bytes, err
}

// size returns the total size of the files of a directory with a prefix.
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

// query queries one row.
func query(ctx context.Context, i *installation.Installation, sql string, into ...any) error {
	return withConnection(ctx, i, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(into...) })
}

// execute executes a statement.
func execute(ctx context.Context, i *installation.Installation, sql string) error {
	return withConnection(ctx, i, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// withConnection calls do with a connection to the database.
func withConnection(ctx context.Context, i *installation.Installation, do func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, i.Postgres.URL())
	if err == nil {
		err = errors.Join(do(conn), conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return nil
}
