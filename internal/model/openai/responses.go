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

// respond calls the Responses API. The provider stores nothing: the reasoning comes encrypted
// with the answer, and is sent back with the conversation.
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
	defer stream.Close() //nolint:errcheck // everything that counts has been read
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

// responseParams translates a request. It fails if the schema of a tool is not a JSON object.
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
	for _, t := range req.Tools {
		schema, err := schemaOf(&t)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: schema,
			Strict: param.NewOpt(false), // strict mode requires each schema to list all properties as required
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

// assistantItems translates an assistant turn. Reasoning must precede the item that it led to;
// otherwise the provider refuses it.
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

// phase returns the phase of a text that is followed by these blocks. OpenAI's models set the
// phase of their texts, and get worse if it is lost. It is not stored, but can be derived: a
// text before calls is commentary, any other is an answer.
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

// userItems translates a user turn: the results, and then one message with all else.
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

// attachmentPart translates an attachment, or returns a placeholder if it cannot be shown.
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

// sealReasoning converts a reasoning item for the transcript. Reasoning that cannot be sent
// back is kept for people.
func sealReasoning(id, encrypted, text string) tree.Thinking {
	if encrypted == "" {
		return tree.Thinking{Text: text}
	}
	return tree.Thinking{Text: text, Signature: conversation.OpenAISignaturePrefix + id + ":" + encrypted}
}

// withoutRejected returns a request without the reasoning that was refused.
func (c Config) withoutRejected(req *model.Request) *model.Request {
	out := *req
	out.Messages = c.omission.thinking.Strip(req.Messages)
	return &out
}

func isSealed(t tree.Thinking) bool {
	return strings.HasPrefix(t.Signature, conversation.OpenAISignaturePrefix)
}

// unsealReasoning converts reasoning from the transcript to an item.
func unsealReasoning(t tree.Thinking) (item responses.ResponseInputItemUnionParam, ok bool) {
	both, ok := strings.CutPrefix(t.Signature, conversation.OpenAISignaturePrefix)
	if !ok {
		return item, false
	}
	id, encrypted, _ := strings.Cut(both, ":")
	summary := []responses.ResponseReasoningItemSummaryParam{} // required, even if it is empty
	if t.Text != "" {
		summary = append(summary, responses.ResponseReasoningItemSummaryParam{Text: t.Text})
	}
	item = responses.ResponseInputItemParamOfReasoning(id, summary)
	item.OfReasoning.EncryptedContent = param.NewOpt(encrypted)
	return item, true
}

// refusesInclude reports whether a model rejects the request for its reasoning because it does
// not reason.
func refusesInclude(err error) bool {
	return mentions(err, "encrypted content is not supported", string(responses.ResponseIncludableReasoningEncryptedContent))
}

// refusesPhase reports whether a model rejects the phases of its texts.
func refusesPhase(err error) bool { return mentions(err, ".phase'", "'phase'", ".phase`", "`phase`") }

// refusesThoughts reports whether a request was refused because of its reasoning. It belongs to
// another account, or is not followed by what it led to. Only the error text identifies this.
func refusesThoughts(err error) bool {
	return mentions(err, "encrypted content", "encrypted_content", "'rs_")
}
