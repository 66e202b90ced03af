package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// Codes of a 429 which no waiting mends: the account is used up, or its plan is without the API.
const (
	codeQuota = "insufficient_quota"
	codePlan  = "usage_not_included"
)

// final are the codes of an answer that fails for what was asked, which has no status to say
// so. What is not among them may be mended by another try.
var finalCodes = []responses.ResponseErrorCode{
	responses.ResponseErrorCodeInvalidPrompt,
	responses.ResponseErrorCodeDataResidencyMismatch,
	responses.ResponseErrorCodeBioPolicy,
	responses.ResponseErrorCodeMisalignmentPolicyViolation,
	"cyber_policy", // which the SDK does not know
	responses.ResponseErrorCodeInvalidImage,
	responses.ResponseErrorCodeInvalidImageFormat,
	responses.ResponseErrorCodeInvalidBase64Image,
	responses.ResponseErrorCodeInvalidImageURL,
	responses.ResponseErrorCodeImageTooLarge,
	responses.ResponseErrorCodeImageTooSmall,
	responses.ResponseErrorCodeImageParseError,
	responses.ResponseErrorCodeImageContentPolicyViolation,
	responses.ResponseErrorCodeInvalidImageMode,
	responses.ResponseErrorCodeImageFileTooLarge,
	responses.ResponseErrorCodeUnsupportedImageMediaType,
	responses.ResponseErrorCodeEmptyImageFile,
	responses.ResponseErrorCodeFailedToDownloadImage,
	responses.ResponseErrorCodeImageFileNotFound,
}

// tooLargePrefix begins what OpenAI says of a request with more tokens than the account may
// ever use in a minute. In all else it is like one that came too soon, but no waiting
// mends it: the conversation has to be shorter.
const tooLargePrefix = "Request too large"

// errorInfo is what a server says of an error. Servers put into it what would be the
// status, under one name or another, as a number or in words.
type errorInfo struct {
	status   int // 0: it is not said
	words    []string
	tooLarge bool
}

// parseError reads the object error of a body or an event; whatever else there is says
// nothing.
func parseError(data []byte) errorInfo {
	var body struct {
		Error struct {
			Type    any `json:"type"`
			Code    any `json:"code"`
			Status  any `json:"status"`
			Message any `json:"message"`
		} `json:"error"`
	}
	var t errorInfo
	if json.Unmarshal(data, &body) != nil {
		return t
	}
	if message, ok := body.Error.Message.(string); ok {
		t.tooLarge = strings.HasPrefix(message, tooLargePrefix)
	}
	for _, said := range []any{body.Error.Type, body.Error.Status, body.Error.Code} {
		switch said := said.(type) {
		case float64:
			t.setStatus(said)
		case string:
			if n, err := strconv.Atoi(said); err == nil {
				t.setStatus(float64(n))
			} else {
				t.words = append(t.words, said)
			}
		}
	}
	return t
}

// setStatus takes what may be a status. Servers have numbers of their own, too.
func (t *errorInfo) setStatus(n float64) {
	if n >= http.StatusBadRequest && n < 600 {
		t.status = int(n)
	}
}

// mentions reports whether one of the words has one of these in it.
func (t errorInfo) mentions(parts ...string) bool {
	for _, word := range t.words {
		for _, part := range parts {
			if strings.Contains(word, part) {
				return true
			}
		}
	}
	return false
}

// final reports whether one of the words is the code of what no other try mends.
func (t errorInfo) isFinal() bool {
	return slices.ContainsFunc(t.words, func(word string) bool {
		return slices.Contains(finalCodes, responses.ResponseErrorCode(word))
	})
}

// kindOfBody is the kind of an error that came as the whole answer.
func kindOfBody(said []byte) model.ErrorKind { return parseError(said).kind() }

// kind says what can be done about it. invalid_request_error comes last: OpenAI says it
// of a wrong key too, and others of all that they refuse.
func (t errorInfo) kind() model.ErrorKind {
	switch {
	case t.mentions(codeQuota, codePlan):
		return model.ErrorAuth
	case t.tooLarge:
		return model.ErrorTooLong
	case t.mentions("rate_limit"):
		return model.ErrorRateLimited
	case t.mentions("overloaded", "server_error", "slow_down"):
		return model.ErrorOverloaded
	case t.status != 0:
		return upstream.KindOfStatus(t.status)
	case t.mentions("authentication", "permission", "invalid_api_key"):
		return model.ErrorAuth
	case t.mentions("invalid_request"), t.isFinal():
		return model.ErrorInvalid
	}
	return model.ErrorBroken
}
