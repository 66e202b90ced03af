package anthropic

import (
	"cmp"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/tree"
)

// params translates a request.
//
// A request may contain four cache marks; the provider caches the prompt up to each. They are
// at the end of the tools, of the system prompt, of the last turn and of the user turn before
// it. The first two are equal for all agents of one definition. The next request continues from
// the last mark. The mark before it lets the cache be found after a long last turn, because the
// provider looks back only 20 blocks.
func (c Config) params(req *model.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model: cmp.Or(req.Model, c.Model), MaxTokens: defaultMaxTokens,
		Tools: tools(req.Tools), Messages: remind(messages(conversation.Shape(req.Messages)), req.Reminder),
	}
	if strings.TrimSpace(req.System) != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	p.Thinking = c.Thinking.param(p.Model, req.Messages)
	if on := p.Thinking.OfEnabled; on != nil {
		p.MaxTokens, on.BudgetTokens = withThinkingBudget(p.Model, p.MaxTokens, on.BudgetTokens)
	}
	return p
}

func tools(specs []model.ToolSpec) []sdk.ToolUnionParam {
	var out []sdk.ToolUnionParam
	for _, s := range specs {
		out = append(out, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
			Name: s.Name, Description: param.NewOpt(s.Description),
			InputSchema: param.Override[sdk.ToolInputSchemaParam](s.Schema),
		}})
	}
	if n := len(out); n > 0 {
		out[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	return out
}

func messages(turns []conversation.Turn) []sdk.MessageParam {
	var out []sdk.MessageParam
	for _, t := range conversation.Select(turns, sent) {
		m := sdk.MessageParam{Role: sdk.MessageParamRoleUser}
		if t.Role == tree.RoleAssistant {
			m.Role = sdk.MessageParamRoleAssistant
		}
		for _, b := range t.Blocks {
			if block, ok := block(b); ok {
				m.Content = append(m.Content, block)
			}
		}
		out = append(out, m)
	}
	marks := 0
	for i := len(out) - 1; i >= 0 && marks < 2; i-- {
		if last := &out[i].Content[len(out[i].Content)-1]; out[i].Role == sdk.MessageParamRoleUser {
			markCached(last)
			marks++
		}
	}
	return out
}

// remind puts the reminder last, after the cache marks.
func remind(all []sdk.MessageParam, reminder string) []sdk.MessageParam {
	if strings.TrimSpace(reminder) == "" {
		return all
	}
	text := sdk.NewTextBlock(reminder)
	if n := len(all); n > 0 && all[n-1].Role == sdk.MessageParamRoleUser {
		all[n-1].Content = append(all[n-1].Content, text)
		return all
	}
	return append(all, sdk.NewUserMessage(text))
}

// markCached sets a cache mark at a block.
func markCached(b *sdk.ContentBlockParamUnion) {
	switch {
	case b.OfText != nil:
		b.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
	case b.OfToolResult != nil:
		b.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
	case b.OfImage != nil:
		b.OfImage.CacheControl = sdk.NewCacheControlEphemeralParam()
	case b.OfDocument != nil:
		b.OfDocument.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
}

// redactedPrefix starts the signature of reasoning that only the provider can read. The
// provider's other signatures contain no colon.
const redactedPrefix = "redacted:"

// isForeign reports whether reasoning is from another provider.
func isForeign(t tree.Thinking) bool {
	return t.Signature == "" || strings.HasPrefix(t.Signature, conversation.OpenAISignaturePrefix)
}

func isOwn(t tree.Thinking) bool { return !isForeign(t) }

// sent returns the blocks of an assistant turn that the provider is sent: without reasoning of
// another provider, and without reasoning at the end, which the provider refuses.
func sent(blocks []tree.Block) []tree.Block {
	out := slices.DeleteFunc(slices.Clone(blocks), func(b tree.Block) bool {
		thought, is := b.(tree.Thinking)
		return is && isForeign(thought)
	})
	for len(out) > 0 {
		if _, is := out[len(out)-1].(tree.Thinking); !is {
			break
		}
		out = out[:len(out)-1]
	}
	return out
}

// block translates a block. It reports false for a block of an unknown type.
func block(b tree.Block) (sdk.ContentBlockParamUnion, bool) {
	switch b := b.(type) {
	case tree.Text:
		return sdk.NewTextBlock(b.Text), true
	case tree.Thinking:
		if data, ok := strings.CutPrefix(b.Signature, redactedPrefix); ok {
			return sdk.NewRedactedThinkingBlock(data), true
		}
		return sdk.NewThinkingBlock(b.Signature, b.Text), true
	case tree.ToolUse:
		return sdk.NewToolUseBlock(b.ProviderID, b.Input, b.Name), true
	case tree.ToolResult:
		result := sdk.ToolResultBlockParam{ToolUseID: b.ProviderID}
		if b.IsError {
			result.IsError = param.NewOpt(true)
		}
		if b.Text != "" {
			result.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: b.Text}}}
		}
		return sdk.ContentBlockParamUnion{OfToolResult: &result}, true
	case tree.Attachment:
		return attachment(b), true
	}
	return sdk.ContentBlockParamUnion{}, false
}

// attachment translates an attachment, or returns a placeholder if it cannot be shown.
func attachment(a tree.Attachment) sdk.ContentBlockParamUnion {
	switch {
	case conversation.IsImage(a):
		return sdk.NewImageBlockBase64(a.MediaType, conversation.Base64(a))
	case conversation.IsDocument(a, conversation.PDF):
		return sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: conversation.Base64(a)})
	case conversation.IsDocument(a, conversation.PlainText):
		return sdk.NewDocumentBlock(sdk.PlainTextSourceParam{Data: string(a.Data)})
	case a.URL != "" && a.Kind == tree.AttachmentImage:
		return sdk.NewImageBlock(sdk.URLImageSourceParam{URL: a.URL})
	case a.URL != "" && a.Kind == tree.AttachmentDocument:
		return sdk.NewDocumentBlock(sdk.URLPDFSourceParam{URL: a.URL})
	}
	return sdk.NewTextBlock(conversation.Placeholder(a))
}
