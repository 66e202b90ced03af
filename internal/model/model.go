// Package model is the contract between the agent loop and whatever answers as
// a language model. Providers live in packages below it; their vendors' types
// stop there.
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// Model answers a conversation with one assistant message.
//
// Generate is called from many goroutines at once. It reports text as it comes
// through emit, which never blocks for long and may be nil; what was emitted is
// a preview, the returned answer is what counts. It returns an error that wraps
// *Error when the provider refused or failed, and ctx's cause when ctx ended;
// a half-received answer is an error, never an answer.
type Model interface {
	Generate(ctx context.Context, req *Request, emit func(Delta)) (*Answer, error)
}

// Request is everything a model is told.
type Request struct {
	// Provider is the name of the provider that has the model; empty means the
	// worker's choice.
	Provider string
	// Model is the name of the model wanted; empty means the provider's default.
	Model string
	// System is the system prompt.
	System string
	// Tools are the tools it may call.
	Tools []ToolSpec
	// Messages is the conversation: it starts with a user message, and each tool
	// message closes all the calls of the assistant message before it.
	Messages []tree.Message
	// Reminder is a text for the model to see after the last message; empty means
	// none. It is no part of the conversation: it is given anew with each call, so it
	// belongs behind whatever a provider caches.
	Reminder string
	// MaxTokens bounds the answer; 0 means the provider's default.
	MaxTokens int

	// Who asks. Providers pass these on as metadata at most; the scripted model
	// chooses its steps by them.
	Session tree.SessionID
	Task    tree.TaskID
	Agent   string
	Depth   int
}

// ToolSpec is a tool as a model sees it. Schema is a JSON Schema of an object; all
// requests share it, and nobody changes it.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Answer is one finished assistant message.
type Answer struct {
	// Model is the name of the model that answered.
	Model  string
	Blocks []tree.Block
	Usage  tree.Usage
	Stop   tree.StopReason
}

// Delta is a piece of an answer under way. An empty one says that something has come which is
// not shown, such as the input of a call.
type Delta struct {
	Text     string
	Thinking bool
	// Restart says that the pieces before this one, if any, belong to an answer that was
	// given up; the text is not the model's, and says why, in brackets, for who can't take
	// them back.
	Restart bool
}

// ErrorKind says what can be done about a provider's error.
type ErrorKind uint8

// The kinds of provider errors.
const (
	ErrorUnspecified ErrorKind = iota
	ErrorInvalid               // the request itself is wrong: a retry fails too
	ErrorTooLong               // so is one whose conversation is longer than the model takes
	ErrorAuth                  // the key is missing, wrong or without rights
	ErrorRateLimited           // too many requests or tokens: wait, then retry
	ErrorOverloaded            // the provider is short of capacity: retry later
	ErrorBroken                // the connection or the stream broke: retry
)

func (k ErrorKind) String() string {
	switch k {
	case ErrorInvalid:
		return "invalid request"
	case ErrorTooLong:
		return "too long"
	case ErrorAuth:
		return "not authorised"
	case ErrorRateLimited:
		return "rate limited"
	case ErrorOverloaded:
		return "overloaded"
	case ErrorBroken:
		return "broken off"
	}
	return "failed"
}

// Error is a provider's refusal or failure.
type Error struct {
	Kind ErrorKind
	// RetryAfter is how long the provider asked to be left alone; 0 if it did not say.
	RetryAfter time.Duration
	Err        error
}

func (e *Error) Error() string { return fmt.Sprintf("model %s: %v", e.Kind, e.Err) }

func (e *Error) Unwrap() error { return e.Err }
