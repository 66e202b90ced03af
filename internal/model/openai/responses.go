package openai

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/tree"
)

// respond asks over the Responses API. The provider keeps nothing: what a model has thought
// comes sealed with the answer and goes back with the conversation.
func (m *Model) respond(ctx context.Context, config Config, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	params, err := config.responseParams(req)
	if err != nil {
		return nil, &model.Error{Kind: model.ErrorInvalid, Err: err}
	}
	said, err := m.post(ctx, "responses", params, req)
	if err != nil {
		return nil, err
	}
	stream := ssestream.NewStream[responses.ResponseStreamEventUnion](said, nil)
	defer stream.Close() //nolint:errcheck // all that counts has been read
	var r responseBuilder
	for stream.Next() {
		event := stream.Current()
		switch whole, err := r.handle(&event, emit); {
		case err != nil:
			return nil, err
		case whole:
			return r.answer(), nil
		}
	}
	return nil, streamError(ctx, cmp.Or(stream.Err(), io.ErrUnexpectedEOF))
}

// responseParams translates a request. A tool whose schema is no JSON object is an error.
func (c Config) responseParams(req *model.Request) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{
		Model: cmp.Or(req.Model, c.Model), Store: param.NewOpt(false),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: c.items(c.turns(c.withoutRejected(req)))},

		PromptCacheKey: c.cacheKey(req),
	}
	p.Reasoning.Effort = c.effort()
	if !c.quirks.noEncryptedReasoning {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if strings.TrimSpace(req.System) != "" {
		p.Instructions = param.NewOpt(req.System)
	}
	if req.MaxTokens > 0 {
		p.MaxOutputTokens = param.NewOpt(int64(req.MaxTokens))
	}
	for _, t := range req.Tools {
		schema, err := schemaOf(&t)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: schema,
			Strict: param.NewOpt(false), // which would have each schema name all of its properties as required
		}})
	}
	return p, nil
}

func (c Config) items(turns []conversation.Turn) responses.ResponseInputParam {
	var out responses.ResponseInputParam
	for _, t := range turns {
		if t.Role == tree.RoleAssistant {
			out = append(out, c.assistantItems(t.Blocks)...)
		} else {
			out = append(out, userItems(t.Blocks)...)
		}
	}
	return out
}

// assistantItems is a turn of the model's. Reasoning goes back before what it led to; without
// that the provider refuses it.
func (c Config) assistantItems(blocks []tree.Block) (out responses.ResponseInputParam) {
	var thoughts responses.ResponseInputParam
	for i, b := range blocks {
		switch b := b.(type) {
		case tree.Thinking:
			if item, ok := unsealReasoning(b); ok && !c.quirks.noEncryptedReasoning {
				thoughts = append(thoughts, item)
			}
			continue
		case tree.Text:
			out = append(out, thoughts...)
			text := responses.ResponseInputItemParamOfMessage(b.Text, responses.EasyInputMessageRoleAssistant)
			text.OfMessage.Phase = c.phase(blocks[i+1:])
			out = append(out, text)
		case tree.ToolUse:
			out = append(out, thoughts...)
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(string(b.Input), b.ProviderID, b.Name))
		}
		thoughts = nil
	}
	return out
}

// phase says what a text was that has these blocks behind it. OpenAI's models say it of their
// texts, and do worse where it is lost; what they say is not stored, but they speak of what
// they are about to do before calls and answer without any.
func (c Config) phase(rest []tree.Block) responses.EasyInputMessagePhase {
	switch {
	case c.BaseURL != "" || c.quirks.noPhase:
		return ""
	case slices.ContainsFunc(rest, isCall):
		return responses.EasyInputMessagePhaseCommentary
	}
	return responses.EasyInputMessagePhaseFinalAnswer
}

func isCall(b tree.Block) bool {
	_, is := b.(tree.ToolUse)
	return is
}

// userItems is a turn of the user's: results, and then one message of all else.
func userItems(blocks []tree.Block) (out responses.ResponseInputParam) {
	var said responses.ResponseInputMessageContentListParam
	for _, b := range blocks {
		switch b := b.(type) {
		case tree.ToolResult:
			result := responses.ResponseInputItemParamOfFunctionCallOutput(resultText(b))
			result.OfFunctionCallOutput.CallID = param.NewOpt(b.ProviderID)
			out = append(out, result)
		case tree.Text:
			said = append(said, responses.ResponseInputContentParamOfInputText(b.Text))
		case tree.Attachment:
			said = append(said, attachmentPart(b))
		}
	}
	if len(said) > 0 {
		out = append(out, responses.ResponseInputItemParamOfMessage(said, responses.EasyInputMessageRoleUser))
	}
	return out
}

// attachmentPart shows an image or a document, or says that there is one.
func attachmentPart(a tree.Attachment) responses.ResponseInputContentUnionParam {
	var url string
	switch {
	case conversation.IsImage(a):
		url = dataURL(a)
	case a.URL != "" && a.Kind == tree.AttachmentImage:
		url = a.URL
	case conversation.IsDocument(a, conversation.PDF):
		return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
			FileData: param.NewOpt(dataURL(a)), Filename: param.NewOpt(fileName(a)),
		}}
	case a.URL != "" && a.Kind == tree.AttachmentDocument:
		return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{FileURL: param.NewOpt(a.URL)}}
	case conversation.IsDocument(a, conversation.PlainText):
		return responses.ResponseInputContentParamOfInputText(string(a.Data))
	default:
		return responses.ResponseInputContentParamOfInputText(conversation.Placeholder(a))
	}
	image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
	image.OfInputImage.ImageURL = param.NewOpt(url)
	return image
}

// sealReasoning makes of a reasoning item what stands for it in a transcript. What can't go back is
// kept for people.
func sealReasoning(id, encrypted, text string) tree.Thinking {
	if encrypted == "" {
		return tree.Thinking{Text: text}
	}
	return tree.Thinking{Text: text, Signature: conversation.OpenAISignaturePrefix + id + ":" + encrypted}
}

// withoutRejected gives a request without the reasoning that was refused.
func (c Config) withoutRejected(req *model.Request) *model.Request {
	out := *req
	out.Messages = c.omission.thinking.Strip(req.Messages)
	return &out
}

func isSealed(t tree.Thinking) bool {
	return strings.HasPrefix(t.Signature, conversation.OpenAISignaturePrefix)
}

// unsealReasoning gives the reasoning item again.
func unsealReasoning(t tree.Thinking) (item responses.ResponseInputItemUnionParam, ok bool) {
	both, ok := strings.CutPrefix(t.Signature, conversation.OpenAISignaturePrefix)
	if !ok {
		return item, false
	}
	id, encrypted, _ := strings.Cut(both, ":")
	summary := []responses.ResponseReasoningItemSummaryParam{} // required, though it be empty
	if t.Text != "" {
		summary = append(summary, responses.ResponseReasoningItemSummaryParam{Text: t.Text})
	}
	item = responses.ResponseInputItemParamOfReasoning(id, summary)
	item.OfReasoning.EncryptedContent = param.NewOpt(encrypted)
	return item, true
}

// refusesInclude reports whether a model has refused to be asked for its reasoning, since it
// does none.
func refusesInclude(err error) bool {
	return mentions(err, "encrypted content is not supported", string(responses.ResponseIncludableReasoningEncryptedContent))
}

// refusesPhase reports whether a model has refused to be told what its texts were.
func refusesPhase(err error) bool { return mentions(err, ".phase'", "'phase'", ".phase`", "`phase`") }

// refusesThoughts reports whether a request was refused for the reasoning in it. That is
// another account's, or has lost what it led to. Words are all there is to tell it by.
func refusesThoughts(err error) bool {
	return mentions(err, "encrypted content", "encrypted_content", "'rs_")
}
