package openai

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// known are the habits of models, by name. Many requests learn at once.
type known struct {
	mu     sync.Mutex
	habits map[string]habits
}

func (k *known) of(name string) habits {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.habits[name]
}

// add adds what a request has learned of a model to what others have, some of them meanwhile.
// It reports whether that is new.
func (k *known) add(name string, h habits) (all habits, news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	had := k.habits[name]
	if k.habits == nil {
		k.habits = map[string]habits{}
	}
	all = had.and(h)
	k.habits[name] = all
	return all, all != had
}

// learn keeps what a request was answered with after a refusal: of the model for as long as
// the process lives, which is logged, and of the conversation.
func (m *Model) learn(ctx context.Context, name string, req *model.Request, answered Config, refusal error) {
	m.lacks.Learn(name, req, answered.lack)
	habits, news := m.habits.add(name, answered.habits)
	if !news {
		return
	}
	level := slog.LevelInfo
	if habits.older {
		level = slog.LevelWarn // such a model reasons less, or not at all
	}
	m.config.Logger.Log(ctx, level, "a model has refused a request, and is asked otherwise for as long as the process lives",
		"model", name, "otherwise", habits.names(), "error", refusal, "session_id", req.Session, "task_id", req.Task)
}

// after gives what to ask with after a refusal.
func (c Config) after(err error, req *model.Request) Config {
	switch {
	case c.BaseURL == "" && c.overResponses() && refusesKey(err):
		c.habits.older = true
		return c
	case !upstream.IsInvalid(err):
		return c
	}
	if learned := c.learn(err, req); learned != c {
		return learned
	}
	switch {
	case c.BaseURL == "" && conversation.Attached(req.Messages) && !c.lack.attachments:
		c.lack.attachments = true
	case c.BaseURL == "" && c.overResponses() && !isTooLong(err) && !flagged(err):
		c.lack.older = true
	}
	return c
}

// learn gives what to ask with after a refusal whose words say it.
func (c Config) learn(err error, req *model.Request) Config {
	switch {
	case c.effort() != "" && refusesEffort(err):
		c.habits.noEffort = c.habits.noEffort || c.overResponses()
		c.habits.noEffortOlder = c.habits.noEffortOlder || !c.overResponses()
	case !c.overResponses():
		c.habits = c.habits.after(err, len(req.Tools) > 0)
	case refusesInclude(err):
		c.habits.sealsNothing = true
	case c.BaseURL == "" && refusesPhase(err):
		c.habits.noPhase = true
	case refusesThoughts(err):
		c.lack.thoughts, _ = c.lack.thoughts.With(conversation.LastSignature(req.Messages, isSealed))
	case c.BaseURL == "" && refusesResponses(err):
		c.habits.older = true
	}
	return c
}

// overResponses reports whether the model is asked over that API.
func (c Config) overResponses() bool { return c.Responses && !c.habits.older && !c.lack.older }

// refusesKey reports whether the key may not be used for Responses. Such a one may be good for
// chat completions.
func refusesKey(err error) bool {
	failed, is := errors.AsType[*model.Error](err)
	return is && failed.Kind == model.ErrorAuth && speaksOf(err, "api.responses")
}

// isTooLong reports whether a conversation was refused for its length. Over chat completions
// the same is shorter, as its reasoning does not go back; but it is to be summed up.
func isTooLong(err error) bool {
	failed, is := errors.AsType[*model.Error](err)
	return is && failed.Kind == model.ErrorTooLong
}

// flagged reports whether a conversation was refused for what it is about. That is not tried
// in another way.
func flagged(err error) bool { return speaksOf(err, "invalid_prompt", "_policy") }

// refusesResponses reports whether a request was refused for the API that it came over, or
// for the model there, so that others are refused too.
func refusesResponses(err error) bool {
	return !isTooLong(err) && speaksOf(err, "v1/responses", "v1/chat/completions", "responses api", "model_not_found", "unsupported_model")
}

// speaksOf reports whether a refusal has one of these words. There is nothing else to tell some
// of them by.
func speaksOf(err error, parts ...string) bool {
	said := strings.ToLower(err.Error())
	for _, part := range parts {
		if strings.Contains(said, part) {
			return true
		}
	}
	return false
}
