package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// maxBody bounds the response, in bytes.
const maxBody = 64 << 10

// post sends the JSON that a command would read to a URL. It does not follow redirects.
func (h *Hooks) post(ctx context.Context, s *Spec, event tree.HookEvent, body []byte) result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return failedResult("%v", withoutURL(err))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "coppice-hook")
	resp, err := h.client.Do(req)
	if err != nil {
		r := failedResult("%v", withoutURL(err))
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			r.outcome = tree.HookMissing
		}
		return r
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return failedResult("reading the answer: %v", err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return failedWithOutput("HTTP "+resp.Status, string(answer))
	case len(answer) > maxBody:
		return failedResult("the answer has more than %d bytes", maxBody)
	}
	return h.responseResult(event, bytes.TrimSpace(answer))
}

// withoutURL removes the URL from an error. It may contain a token, and watchers see the error.
func withoutURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}

// responseResult interprets the body of a successful response.
func (h *Hooks) responseResult(event tree.HookEvent, body []byte) result {
	if len(body) == 0 {
		return result{outcome: tree.HookPassed}
	}
	var answer struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
		Context  string `json:"context"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return failedResult("the answer is neither empty nor the JSON that is expected: %v", err)
	}
	switch {
	case answer.Decision == "block" && event == tree.SubagentStop:
		return blockedResult(h.cut(answer.Reason))
	case answer.Decision == "block":
		return failedResult("a start can't be blocked")
	case answer.Decision != "" && answer.Decision != "approve":
		return failedResult("the decision %.50q is neither block nor approve", h.Secrets.String(answer.Decision))
	}
	return passedResult(event, h.cut(strings.TrimSpace(answer.Context)))
}
