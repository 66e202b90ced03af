package tree

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ID is a UUID with the type of what it names: the ids of sessions, tasks and messages are
// different types, so they cannot be mixed up.
type ID[Of any] uuid.UUID

type (
	// SessionID names a session. New ids of all kinds are UUIDv7: they sort by age.
	SessionID = ID[Session]
	// TaskID names a task within its session.
	TaskID = ID[Task]
	// MessageID names a message within its task.
	MessageID = ID[Message]
	// ApprovalID names an approval.
	ApprovalID = ID[Approval]
)

// ParseID reads the canonical text form of an id.
func ParseID[Of any](s string) (ID[Of], error) {
	if len(s) != 36 {
		return ID[Of]{}, fmt.Errorf("text of %d bytes is not a UUID", len(s))
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return ID[Of]{}, fmt.Errorf("%q is not a UUID", s)
	}
	if u == uuid.Nil {
		return ID[Of]{}, errors.New("the nil UUID is not a valid id")
	}
	return ID[Of](u), nil
}

// IsZero reports whether the id names nothing.
func (id ID[Of]) IsZero() bool { return id == ID[Of]{} }

func (id ID[Of]) String() string { return uuid.UUID(id).String() }

// MarshalText gives the canonical text form.
func (id ID[Of]) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText reads the canonical text form.
func (id *ID[Of]) UnmarshalText(text []byte) error {
	parsed, err := ParseID[Of](string(text))
	*id = parsed
	return err
}
