package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tree"
)

type workspacesCommand struct {
	Prune pruneCommand `cmd:"" help:"List the directories in a worker's --workspaces whose sessions no longer exist; with --delete, remove them."`
}

type pruneCommand struct {
	remote
	Delete bool   `env:"" help:"Remove them."`
	Force  bool   `env:"" help:"With --delete: also if the orchestrator knows none of the directories' sessions."`
	Root   string `arg:"" help:"The directory that the workers have as --workspaces; this command reads it on this machine."`
}

// Run processes the directories that are named like sessions. Directories with other names are
// shared, and never touched.
func (p *pruneCommand) Run(ctx context.Context, a *app) error {
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return usagef("opening the directory: %w", err)
	}
	return errors.Join(p.with(func(c *client) error {
		gone, known, err := p.goneSessions(ctx, c)
		switch {
		case err != nil:
			return err
		case p.Delete && known == 0 && len(gone) > 0 && !p.Force:
			return usagef("the orchestrator knows no session for any of the %d directories; if it is the right orchestrator, add --force", len(gone))
		}
		if len(gone) == 0 {
			a.printNone("workspaces of sessions that are gone")
		}
		var left []error // one failure does not keep the others
		for _, name := range gone {
			if p.Delete {
				if err := sandbox.RemoveAll(root, name); err != nil {
					left = append(left, fmt.Errorf("removing the workspace of a session: %w", err))
					continue
				}
			}
			if err := p.printDir(a, name); err != nil {
				return errors.Join(append(left, err)...)
			}
		}
		return errors.Join(left...)
	}), root.Close())
}

// goneSessions returns the directories whose sessions no longer exist, and counts the others. A
// session exists before its directory, so directories are listed before sessions are looked up.
func (p *pruneCommand) goneSessions(ctx context.Context, c *client) (gone []string, known int, err error) {
	entries, err := os.ReadDir(p.Root)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the directory: %w", err)
	}
	var names, ids []string
	for _, e := range entries {
		if id, other := tree.ParseID[tree.Session](e.Name()); e.IsDir() && other == nil {
			names, ids = append(names, e.Name()), append(ids, id.String())
		}
	}
	there, err := c.existingSessions(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	for i, name := range names {
		if !there[ids[i]] {
			gone = append(gone, name)
		}
	}
	return gone, len(names) - len(gone), nil
}

// maxFindSessions is the maximum number of sessions in one call.
const maxFindSessions = 1000

// existingSessions returns which sessions exist, of all tenants, because a worker has directories
// of all tenants.
func (c *client) existingSessions(ctx context.Context, ids []string) (map[string]bool, error) {
	there := map[string]bool{}
	for some := range slices.Chunk(ids, maxFindSessions) {
		found, err := c.admin.FindSessions(ctx, &pb.FindSessionsRequest{SessionIds: some})
		if status.Code(err) == codes.Unimplemented {
			return nil, errors.New("the orchestrator runs an older release that cannot list the sessions of other tenants, whose directories are here too: upgrade it first")
		}
		if err != nil {
			return nil, during("looking for the sessions of directories", err)
		}
		for _, id := range found.GetSessionIds() {
			there[id] = true
		}
	}
	return there, nil
}

// printDir prints one directory.
func (p *pruneCommand) printDir(a *app, name string) error {
	path := filepath.Join(p.Root, name)
	if !a.json {
		return a.print(safeLine(path))
	}
	line, err := json.Marshal(map[string]any{"workspace": path, "deleted": p.Delete})
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", line)
	return err
}
