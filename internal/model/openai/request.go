package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/tree"
)

// params translates a request. A tool whose schema is no JSON object is an error.
func (c Config) params(req *model.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:         cmp.Or(req.Model, c.Model),
		Messages:      c.messages(req.System, c.turns(req)),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},

		PromptCacheKey: c.cacheKey(req),
	}
	switch {
	case req.MaxTokens > 0 && c.BaseURL == "":
		p.MaxCompletionTokens = param.NewOpt(int64(req.MaxTokens))
	case req.MaxTokens > 0: // the older name is what other servers know
		p.MaxTokens = param.NewOpt(int64(req.MaxTokens))
	}
	for _, t := range req.Tools {
		schema, err := schemaOf(&t)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: schema,
		}))
	}
	p.ReasoningEffort = c.effort()
	if c.quirks.noReasoningWithTools && len(p.Tools) > 0 {
		p.ReasoningEffort = shared.ReasoningEffortNone
	}
	return p, nil
}

// cacheKey names the beginning of a conversation, which its forks and branches share. OpenAI sends
// requests of one key, as long as they are few, to where that is cached. By the beginning of the
// text alone it would send all agents of a kind to one place, and most of them elsewhere again.
func (c Config) cacheKey(req *model.Request) (key param.Opt[string]) {
	if c.BaseURL == "" && len(req.Messages) > 0 && !req.Messages[0].ID.IsZero() {
		key = param.NewOpt(req.Messages[0].ID.String())
	}
	return key
}

// turns shapes the conversation, with what the model is reminded of.
func (c Config) turns(req *model.Request) []conversation.Turn {
	said := req.Messages
	if c.omission.attachments || c.BaseURL != "" { // other servers than OpenAI's own may have a model that can't look at anything
		said = conversation.WithPlaceholders(said)
	}
	return remind(conversation.Shape(said), req.Reminder)
}

func schemaOf(t *model.ToolSpec) (schema shared.FunctionParameters, err error) {
	if err = json.Unmarshal(t.Schema, &schema); err != nil {
		err = fmt.Errorf("the schema of the tool %s: %w", t.Name, err)
	}
	return schema, err
}

// remind puts a reminder behind everything.
func remind(turns []conversation.Turn, reminder string) []conversation.Turn {
	if strings.TrimSpace(reminder) == "" {
		return turns
	}
	if n := len(turns); n == 0 || turns[n-1].Role != tree.RoleUser {
		turns = append(turns, conversation.Turn{Role: tree.RoleUser})
	}
	last := &turns[len(turns)-1]
	last.Blocks = append(last.Blocks, tree.Text{Text: reminder})
	return turns
}

func (c Config) messages(system string, turns []conversation.Turn) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	if strings.TrimSpace(system) != "" {
		out = append(out, sdk.SystemMessage(system))
	}
	for _, t := range turns {
		if t.Role == tree.RoleAssistant {
			if m, ok := assistantMessage(t.Blocks, c.quirks); ok {
				out = append(out, m)
			}
			continue
		}
		out = append(out, userMessages(t.Blocks)...)
	}
	return out
}

// assistantMessage is a turn of the model's. Reasoning is not handed back unless that is a habit.
func assistantMessage(blocks []tree.Block, h quirks) (_ sdk.ChatCompletionMessageParamUnion, ok bool) {
	var m sdk.ChatCompletionAssistantMessageParam
	var texts []string
	for _, b := range blocks {
		switch b := b.(type) {
		case tree.Text:
			texts = append(texts, b.Text)
		case tree.ToolUse:
			m.ToolCalls = append(m.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: b.ProviderID,
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: b.Name, Arguments: string(b.Input),
					},
				},
			})
		}
	}
	if len(texts) > 0 {
		m.Content.OfString = param.NewOpt(strings.Join(texts, "\n"))
	}
	h.addReasoning(&m, blocks)
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &m}, len(texts)+len(m.ToolCalls) > 0
}

// userMessages is a turn of the user's: a message for each result, and one for all else
// that was said, because many servers want the sides to take turns.
func userMessages(blocks []tree.Block) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	var texts []string
	var parts []sdk.ChatCompletionContentPartUnionParam
	for _, b := range blocks {
		switch b := b.(type) {
		case tree.ToolResult:
			out = append(out, sdk.ToolMessage(resultText(b), b.ProviderID))
		case tree.Text:
			texts = append(texts, b.Text)
		case tree.Attachment:
			if part, ok := attachment(b); ok {
				parts = append(parts, part)
			} else {
				texts = append(texts, conversation.Placeholder(b))
			}
		}
	}
	text := strings.Join(texts, "\n\n")
	switch {
	case len(parts) > 0 && text != "":
		out = append(out, sdk.UserMessage(append(parts, sdk.TextContentPart(text))))
	case len(parts) > 0:
		out = append(out, sdk.UserMessage(parts))
	case text != "":
		out = append(out, sdk.UserMessage(text))
	}
	return out
}

// resultText is what a call came to; there is no field for whether it failed.
func resultText(r tree.ToolResult) string {
	if r.IsError {
		return "Error: " + r.Text
	}
	return r.Text
}

// attachment shows an image or a document, if it can be shown.
func attachment(a tree.Attachment) (part sdk.ChatCompletionContentPartUnionParam, ok bool) {
	switch {
	case conversation.IsImage(a):
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: dataURL(a)}), true
	case a.URL != "" && a.Kind == tree.AttachmentImage:
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: a.URL}), true
	case conversation.IsDocument(a, conversation.PDF):
		return sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
			FileData: param.NewOpt(dataURL(a)), Filename: param.NewOpt(fileName(a)),
		}), true
	case conversation.IsDocument(a, conversation.PlainText):
		return sdk.TextContentPart(string(a.Data)), true
	}
	return part, false
}

func dataURL(a tree.Attachment) string {
	return "data:" + a.MediaType + ";base64," + conversation.Base64(a)
}

// fileName is the name of a document: one is required.
func fileName(a tree.Attachment) string { return cmp.Or(a.Name, "document.pdf") }
