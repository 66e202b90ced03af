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

// params translates a request. It fails if the schema of a tool is not a JSON object.
func (c Config) params(req *model.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:         cmp.Or(req.Model, c.Model),
		Messages:      c.messages(req.System, c.turns(req)),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},

		PromptCacheKey: c.cacheKey(req),
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

// cacheKey returns the prompt cache key: the id of the first message, which forks and branches
// of a conversation share. OpenAI sends requests with the same key to the server that has the
// prefix cached, as long as there are few. Without a key it routes by the start of the prompt.
// It would then send all agents of one definition to the same server, and most of them
// elsewhere again.
func (c Config) cacheKey(req *model.Request) (key param.Opt[string]) {
	if c.BaseURL == "" && len(req.Messages) > 0 && !req.Messages[0].ID.IsZero() {
		key = param.NewOpt(req.Messages[0].ID.String())
	}
	return key
}

// turns converts the conversation and appends the reminder.
func (c Config) turns(req *model.Request) []conversation.Turn {
	said := req.Messages
	if c.omission.attachments || c.BaseURL != "" { // servers other than OpenAI's may have models that cannot view attachments
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

// remind appends the reminder to the last user turn.
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
	for _, t := range conversation.Select(turns, spoken) {
		if t.Role == tree.RoleAssistant {
			out = append(out, assistantMessage(t.Blocks, c.quirks))
		} else {
			out = append(out, userMessages(t.Blocks)...)
		}
	}
	return out
}

// spoken returns the blocks of an assistant turn, or none if they are only reasoning.
func spoken(blocks []tree.Block) []tree.Block {
	for _, b := range blocks {
		if _, thought := b.(tree.Thinking); !thought {
			return blocks
		}
	}
	return nil
}

// assistantMessage translates an assistant turn. Reasoning is sent back only if the quirks
// require it.
func assistantMessage(blocks []tree.Block, h quirks) sdk.ChatCompletionMessageParamUnion {
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
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &m}
}

// userMessages translates a user turn: one message per tool result, and one for all else,
// because many servers require alternating roles.
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

// resultText returns the text of a result. The API has no field for errors.
func resultText(r tree.ToolResult) string {
	if r.IsError {
		return "Error: " + r.Text
	}
	return r.Text
}

// attachment translates an attachment. It reports false if it cannot be shown.
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

// fileName returns the name of a document, which is required.
func fileName(a tree.Attachment) string { return cmp.Or(a.Name, "document.pdf") }
