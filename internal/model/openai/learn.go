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

// quirkCache holds the quirks of models by name. It is safe for concurrent use.
type quirkCache struct {
	mu      sync.Mutex
	byModel map[string]quirks
}

func (k *quirkCache) get(name string) quirks {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byModel[name]
}

// add merges the quirks that a request has learned with those that others have learned
// meanwhile. It reports whether that adds any.
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

// learn records what made a request succeed after a refusal. The quirks of the model are kept
// for the life of the process and logged. The omissions are kept for the conversation.
func (m *Model) learn(ctx context.Context, name string, req *model.Request, answered Config, refusal error) {
	m.omissions.Put(name, req, answered.omission)
	all, news := m.quirks.add(name, answered.quirks)
	if !news {
		return
	}
	level := slog.LevelInfo
	if all.chatOnly {
		level = slog.LevelWarn // such a model reasons less, or not at all
	}
	m.config.Logger.Log(ctx, level, "a model has refused a request; this process changes its requests to the model from now on",
		"model", name, "otherwise", all.descriptions(), "error", refusal, "session_id", req.Session, "task_id", req.Task)
}

// next returns the configuration to try after a refusal. It equals c if there is none.
func (c Config) next(err error, req *model.Request) Config {
	err = upstream.WithoutEchoes(err, req)
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

// learnFrom returns the configuration to try if the error text says what was refused.
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

// usesResponses reports whether the model is called over the Responses API.
func (c Config) usesResponses() bool {
	return c.Responses && !c.quirks.chatOnly && !c.omission.chatOnly
}

// refusesKey reports whether the key lacks permission for Responses. It may still be valid for
// chat completions.
func refusesKey(err error) bool {
	failed, is := errors.AsType[*model.Error](err)
	return is && failed.Kind == model.ErrorAuth && mentions(err, "api.responses")
}

// isTooLong reports whether a conversation was refused for its length. It would be shorter over
// chat completions, which omit its reasoning; but it must be summarised instead.
func isTooLong(err error) bool {
	failed, is := errors.AsType[*model.Error](err)
	return is && failed.Kind == model.ErrorTooLong
}

// isPolicyRefusal reports whether a conversation was refused for its content. That is not
// retried in another way.
func isPolicyRefusal(err error) bool { return mentions(err, "invalid_prompt", "_policy") }

// refusesResponses reports whether a request was refused because of the API, or because the
// model is not available over it. Other requests are then refused too.
func refusesResponses(err error) bool {
	return !isTooLong(err) && mentions(err, "v1/responses", "v1/chat/completions", "responses api", "model_not_found", "unsupported_model")
}

// mentions reports whether an error text contains one of these parts. Some refusals can only be
// identified so.
func mentions(err error, parts ...string) bool {
	said := strings.ToLower(err.Error())
	for _, part := range parts {
		if strings.Contains(said, part) {
			return true
		}
	}
	return false
}
