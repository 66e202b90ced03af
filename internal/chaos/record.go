package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Kind is the kind of a record.
type Kind string

// Recorded by workers.
const (
	Granted     Kind = "granted"    // a claim was granted: Run, Epoch, Nonce
	Appended    Kind = "appended"   // an assistant message was stored: Ordinal, Digest
	Closed      Kind = "closed"     // a call's result was stored: Ordinal, Block, Digest
	Spawned     Kind = "spawned"    // children were stored: Ordinal, Blocks
	ParkedAt    Kind = "parked"     // the run was parked; Digest if an answer was stored with it
	Ended       Kind = "ended"      // the run ended: State, Digest of the answer
	Lost        Kind = "lost"       // the attempt was told that it is over
	Reattached  Kind = "reattached" // the attempt continues over another stream, for which it asked at Began
	Summed      Kind = "summed"     // a summary was stored: Ordinal, Digest
	ModelCalled Kind = "asked"      // a model call started: Ordinal of the last message in the request
	SummaryDue  Kind = "sums up"    // the same, for a summary of what is in the request
	Effect      Kind = "effect"     // a tool had its effect: Ordinal of the message before its call, Block
)

// Recorded by clients.
const (
	Created     Kind = "created"   // a session was opened: Key; Asks
	Imported    Kind = "imported"  // a session was opened with a conversation: Key; Ordinal of its last message
	MessageSent Kind = "said"      // a message was accepted: Key, which is its text
	Launched    Kind = "launched"  // a task was started: Key, which is its description; Notify
	Cancelled   Kind = "cancelled" // a cancel was acknowledged: Task, Began, At; After is the last event seen before
	Abandoned   Kind = "abandoned" // closing the session was acknowledged: Began, At
	Branched    Kind = "branched"  // a branch was opened: Key, which is its description; Ordinal of the message named
	Selected    Kind = "selected"  // Task has become current
	Granting    Kind = "granting"  // a decision for the whole session is about to be sent
	Decided     Kind = "decided"   // a decision was acknowledged: Key, which is the approval's id, State
	Watched     Kind = "watched"   // events were seen: After, Digests; Idle
)

// Record is one line of a log: something that was acknowledged or done. The kind determines
// which fields are set.
type Record struct {
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Began   time.Time `json:"began,omitzero"`
	By      string    `json:"by,omitempty"`
	Session string    `json:"session,omitempty"`
	Task    string    `json:"task,omitempty"`
	Run     int32     `json:"run,omitempty"`
	Epoch   int64     `json:"epoch,omitempty"`
	Nonce   uint64    `json:"nonce,omitempty"`
	Seq     int64     `json:"seq,omitempty"`
	Ordinal int32     `json:"ordinal,omitempty"`
	Block   int32     `json:"block,omitempty"`
	Blocks  []int32   `json:"blocks,omitempty"`
	State   string    `json:"state,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Key     string    `json:"key,omitempty"`
	Notify  bool      `json:"notify,omitempty"`
	Asks    bool      `json:"asks,omitempty"` // each note in the session needs an approval
	After   int64     `json:"after,omitempty"`
	Digests []string  `json:"digests,omitempty"`
	Idle    bool      `json:"idle,omitempty"` // after these events, nothing was left to do
}

// Log is an append-only file of records. Each record is one write of a whole line, so a record
// that was added survives the death of the process at any later moment. If the process is killed
// while it writes, a part of the line may be left: the kernel writes page by page. Nobody has acted
// on such a record, so it does not count. A Log is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	file *os.File
}

// OpenLog opens or creates a log, for appending. Nobody else may have it open.
func OpenLog(path string) (*Log, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening a log of records: %w", err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log of records: %w", err)
	}
	if whole := bytes.LastIndexByte(data, '\n') + 1; whole < len(data) {
		if err := file.Truncate(int64(whole)); err != nil {
			return nil, fmt.Errorf("opening a log of records: %w", errors.Join(err, file.Close()))
		}
	}
	return &Log{file: file}, nil
}

// Add writes a record. After an error, evidence is missing, so the caller must stop.
func (l *Log) Add(r Record) error {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// ReadLogs reads all logs (*.log) of a directory.
func ReadLogs(dir string) ([]Record, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, path := range paths {
		if all, err = readLog(path, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readLog(path string, all []Record) (_ []Record, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a log of records: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	in := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return all, nil // the rest of the line, if there is any, was never written
		case err != nil:
			return nil, fmt.Errorf("reading line %d of %s: %w", n, path, err)
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading line %d of %s: %w", n, path, err)
		}
		all = append(all, r)
	}
}
