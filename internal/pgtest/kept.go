package pgtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// initialise makes the data directory. That takes initdb a second or more, and a copy of what it has
// made before a fraction of that, so one is kept for each version in the user's cache.
func (s *Server) initialise() error {
	args := []string{"--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"}
	version, err := s.command("initdb", "--version").Output()
	if err != nil {
		return fmt.Errorf("asking for the version of PostgreSQL: %w", err)
	}
	kept := ""
	if cache, err := os.UserCacheDir(); err == nil {
		kept = filepath.Join(cache, "coppice", "pgtest", fmt.Sprintf("%x", sha256.Sum256(fmt.Append(version, args)))[:16])
		if _, err := os.Stat(kept); err == nil {
			return s.copyFrom(kept)
		}
	}
	if out, err := s.command("initdb", append(args, "--pgdata", s.data())...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if kept == "" {
		return nil
	}
	if err := s.keep(kept); err != nil {
		s.t.Logf("other tests have to make their own: %v", err)
	}
	return nil
}

// keep keeps a copy of the data directory, unless another process was first.
func (s *Server) keep(kept string) error {
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	begun, err := os.MkdirTemp(filepath.Dir(kept), "begun")
	if err != nil {
		return err
	}
	if err := os.CopyFS(begun, os.DirFS(s.data())); err != nil {
		return errors.Join(err, os.RemoveAll(begun))
	}
	if err := os.Rename(begun, kept); err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.Join(err, os.RemoveAll(begun))
	}
	return os.RemoveAll(begun)
}

// copyFrom makes the data directory a copy of the kept one, for the user that the server runs as.
func (s *Server) copyFrom(kept string) error {
	if err := os.CopyFS(s.data(), os.DirFS(kept)); err != nil {
		return err
	}
	if err := os.Chmod(s.data(), 0o700); err != nil || s.as == nil { // PostgreSQL insists on it
		return err
	}
	return filepath.WalkDir(s.data(), func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, int(s.as.Uid), int(s.as.Gid))
	})
}
