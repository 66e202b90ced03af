// Package model is the contract between the agent loop and a language model. The packages below
// it implement providers; vendors' types do not leave those packages.
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
// Generate is called concurrently. It reports text through emit while it arrives. emit may be
// nil, and does not block for long. What it gets is a preview; only the returned answer counts.
// Generate returns an error that wraps *Error if the provider refused or failed, and the cause
// of ctx if ctx ended. A partially received answer is an error, never an answer.
type Model interface {
	Generate(ctx context.Context, req *Request, emit func(Delta)) (*Answer, error)
}

// Router is a [Model] that chooses the provider of a request, and the model there.
//
// Route returns the names that Generate uses for the request. If Generate refuses it, because
// its provider is not configured, they are those of the request.
type Router interface {
	Model
	Route(req *Request) (provider, model string)
}

// Request is the input of a model call.
type Request struct {
	// Provider is the name of the provider. If it is empty, the worker chooses.
	Provider string
	// Model is the name of the model. If it is empty, the provider's default is used.
	Model string
	// System is the system prompt.
	System string
	// Tools are the tools it may call.
	Tools []ToolSpec
	// Messages is the conversation. It starts with a user message, and each tool message closes
	// all calls of the assistant message before it.
	Messages []tree.Message
	// Reminder is an optional text that the model sees after the last message. It is not part
	// of the conversation and is sent anew with each call. Providers put it after the part of
	// the prompt that they cache.
	Reminder string

	// The caller. A model does not see it, but a request needs its Task and its Session: what a
	// provider refused in a conversation is remembered by Task, and not at all without it
	// (upstream.ConversationCache). Requests of a Session queue together at the rate limit, where
	// sessions take turns. Servers other than the vendors' own get all four as headers, and the
	// scripted model chooses its steps by them.
	Session tree.SessionID
	Task    tree.TaskID
	Agent   string
	Depth   int
}

// ToolSpec is a tool as a model sees it. Schema is the JSON Schema of an object. All requests
// share it, and it must not be changed.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Answer is a complete assistant message.
type Answer struct {
	// Model is the name of the model that answered.
	Model  string
	Blocks []tree.Block
	Usage  tree.Usage
	Stop   tree.StopReason
}

// Delta is a piece of an answer in progress. An empty delta reports progress that is not shown,
// such as the input of a call.
type Delta struct {
	Text     string
	Thinking bool
	// Restart says that earlier pieces, if any, belong to an answer that was abandoned. Text
	// then explains why, in brackets and not in the model's words, for readers that cannot
	// remove the earlier pieces.
	Restart bool
}

// ErrorKind classifies an error by what can be done about it.
type ErrorKind uint8

// The kinds of provider errors.
const (
	ErrorUnspecified ErrorKind = iota
	ErrorInvalid               // the request is wrong: a retry fails too
	ErrorTooLong               // the conversation exceeds the context window: a retry fails too
	ErrorAuth                  // the key is missing, wrong or lacks permissions
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

// Error is a refusal or failure of a provider.
type Error struct {
	Kind ErrorKind
	// RetryAfter is how long the provider asked to wait; 0 if it did not say.
	RetryAfter time.Duration
	Err        error
}

func (e *Error) Error() string { return fmt.Sprintf("model %s: %v", e.Kind, e.Err) }

func (e *Error) Unwrap() error { return e.Err }
