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

// unpaidCodes are the codes of a 429 for which waiting does not help: the quota is used up, the plan
// does not include the API, or the account is not active.
var unpaidCodes = []string{
	"insufficient_quota", "usage_not_included", "billing_not_active", // OpenAI
	"exceeded_current_quota", // Moonshot
}

// finalCodes are the error codes for which a retry does not help. Such errors have no status.
// Other codes may be temporary.
var finalCodes = []responses.ResponseErrorCode{
	responses.ResponseErrorCodeInvalidPrompt,
	responses.ResponseErrorCodeDataResidencyMismatch,
	responses.ResponseErrorCodeBioPolicy,
	responses.ResponseErrorCodeMisalignmentPolicyViolation,
	"cyber_policy", // missing in the SDK
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

// tooLargePrefix starts OpenAI's error for a request with more tokens than the account may use
// per minute. It has the status of a rate limit, but waiting does not help: the conversation
// must become shorter.
const tooLargePrefix = "Request too large"

// errorInfo is the content of an error. Servers put what would be the status into it, under
// various names, as a number or in words.
type errorInfo struct {
	status   int // 0: unknown
	words    []string
	tooLarge bool
}

// parseError reads the object error of a body or event. Without one it returns the zero value.
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

// setStatus records a number that may be an HTTP status. Servers also use numbers of their own.
func (t *errorInfo) setStatus(n float64) {
	if n >= http.StatusBadRequest && n < 600 {
		t.status = int(n)
	}
}

// mentions reports whether a word contains one of the parts.
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

// isFinal reports whether a word is one of finalCodes.
func (t errorInfo) isFinal() bool {
	return slices.ContainsFunc(t.words, func(word string) bool {
		return slices.Contains(finalCodes, responses.ResponseErrorCode(word))
	})
}

// kindOfBody classifies an error that is the whole response.
func kindOfBody(said []byte) model.ErrorKind { return parseError(said).kind() }

// kind classifies the error. invalid_request comes late in the order, because OpenAI also uses
// it for a wrong key, and other servers for everything that they refuse.
func (t errorInfo) kind() model.ErrorKind {
	switch {
	case t.mentions(unpaidCodes...):
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
