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

// quirkCache are the habits of models, by name. Many requests learn at once.
type quirkCache struct {
	mu      sync.Mutex
	byModel map[string]quirks
}

func (k *quirkCache) get(name string) quirks {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byModel[name]
}

// add adds what a request has learned of a model to what others have, some of them meanwhile.
// It reports whether that is new.
func (k *quirkCache) add(name string, h quirks) (all quirks, news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	had := k.byModel[name]
	if k.byModel == nil {
		k.byModel = map[string]quirks{}
	}
	all = had.merge(h)
	k.byModel[name] = all
	return all, all != had
}

// learn keeps what a request was answered with after a refusal: of the model for as long as
// the process lives, which is logged, and of the conversation.
func (m *Model) learn(ctx context.Context, name string, req *model.Request, answered Config, refusal error) {
	m.omissions.Put(name, req, answered.omission)
	habits, news := m.quirks.add(name, answered.quirks)
	if !news {
		return
	}
	level := slog.LevelInfo
	if habits.chatOnly {
		level = slog.LevelWarn // such a model reasons less, or not at all
	}
	m.config.Logger.Log(ctx, level, "a model has refused a request, and is asked otherwise for as long as the process lives",
		"model", name, "otherwise", habits.descriptions(), "error", refusal, "session_id", req.Session, "task_id", req.Task)
}

// after gives what to ask with after a refusal.
func (c Config) next(err error, req *model.Request) Config {
	switch {
	case c.BaseURL == "" && c.usesResponses() && refusesKey(err):
		c.quirks.chatOnly = true
		return c
	case !upstream.IsInvalid(err):
		return c
	}
	if learned := c.learnFrom(err, req); learned != c {
		return learned
	}
	switch {
	case c.BaseURL == "" && conversation.HasAttachments(req.Messages) && !c.omission.attachments:
		c.omission.attachments = true
	case c.BaseURL == "" && c.usesResponses() && !isTooLong(err) && !isPolicyRefusal(err):
		c.omission.chatOnly = true
	}
	return c
}

// learnFrom gives what to ask with after a refusal whose words say it.
func (c Config) learnFrom(err error, req *model.Request) Config {
	switch {
	case c.effort() != "" && refusesEffort(err):
		c.quirks.noEffort = c.quirks.noEffort || c.usesResponses()
		c.quirks.noEffortChat = c.quirks.noEffortChat || !c.usesResponses()
	case !c.usesResponses():
		c.quirks = c.quirks.learnFrom(err, len(req.Tools) > 0)
	case refusesInclude(err):
		c.quirks.noEncryptedReasoning = true
	case c.BaseURL == "" && refusesPhase(err):
		c.quirks.noPhase = true
	case refusesThoughts(err):
		c.omission.thinking, _ = c.omission.thinking.Add(conversation.LastSignature(req.Messages, isSealed))
	case c.BaseURL == "" && refusesResponses(err):
		c.quirks.chatOnly = true
	}
	return c
}

// usesResponses reports whether the model is asked over that API.
func (c Config) usesResponses() bool {
	return c.Responses && !c.quirks.chatOnly && !c.omission.chatOnly
}

// refusesKey reports whether the key may not be used for Responses. Such a one may be good for
// chat completions.
func refusesKey(err error) bool {
	failed, is := errors.AsType[*model.Error](err)
	return is && failed.Kind == model.ErrorAuth && mentions(err, "api.responses")
}

// isTooLong reports whether a conversation was refused for its length. Over chat completions
// the same is shorter, as its reasoning does not go back; but it is to be summed up.
func isTooLong(err error) bool {
	failed, is := errors.AsType[*model.Error](err)
	return is && failed.Kind == model.ErrorTooLong
}

// isPolicyRefusal reports whether a conversation was refused for what it is about. That is not tried
// in another way.
func isPolicyRefusal(err error) bool { return mentions(err, "invalid_prompt", "_policy") }

// refusesResponses reports whether a request was refused for the API that it came over, or
// for the model there, so that others are refused too.
func refusesResponses(err error) bool {
	return !isTooLong(err) && mentions(err, "v1/responses", "v1/chat/completions", "responses api", "model_not_found", "unsupported_model")
}

// mentions reports whether a refusal has one of these words. There is nothing else to tell some
// of them by.
func mentions(err error, parts ...string) bool {
	said := strings.ToLower(err.Error())
	for _, part := range parts {
		if strings.Contains(said, part) {
			return true
		}
	}
	return false
}
