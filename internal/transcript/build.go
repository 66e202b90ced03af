package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// unfinishedResult is the result of a call that has no result in the file.
const unfinishedResult = "not finished: the transcript ends before the result came"

// orphanResultNote is the note for a result that belongs to no call.
const orphanResultNote = "a result without its call was left out"

// missingStart is the user message that is inserted before a conversation which starts with an
// assistant message.
const missingStart = "(The conversation began before this.)"

// builder builds messages from a chain of records.
type builder struct {
	*file
	messages []tree.Message
	places   map[string]int // by the uuid of a line: the position of its message, from 1

	current    int // position of the open assistant message, from 1; 0: none
	parts      []*record
	calls      []string // ids of the calls of the assistant message, by block
	results    map[string][]tree.ToolResult
	resultLine *record // the first line with results
	later      []held  // user messages after the assistant message, whose results may still come
}

// held is a message that is not put yet.
type held struct {
	line    *record
	message tree.Message
}

// add adds the next record.
func (b *builder) add(r *record) {
	if r.Type == typeAssistant {
		b.assistant(r)
		return
	}
	var rest []tree.Block
	found := false
	for _, part := range r.blocks {
		if part.Type != typeResult {
			rest = b.append(rest, part)
			continue
		}
		found = true
		if b.current == 0 {
			b.note(orphanResultNote)
			continue
		}
		b.results[part.CallID] = append(b.results[part.CallID], b.result(part))
	}
	if found && b.resultLine == nil && len(rest) == 0 {
		b.resultLine = r
	}
	if len(rest) > 0 {
		b.later = append(b.later, held{r, tree.Message{Role: tree.RoleUser, Blocks: rest}})
	}
	if b.current == 0 {
		b.close()
	}
}

// assistant adds a line of an assistant message. One message may span several lines.
func (b *builder) assistant(r *record) {
	goesOn := b.current > 0 && r.Message.ID != "" && r.Message.ID == b.parts[0].Message.ID && b.resultLine == nil && len(b.later) == 0
	if !goesOn {
		b.close()
		if len(b.messages) == 0 {
			b.note("the conversation begins with an answer; a user message was put before it")
			b.messages = append(b.messages, tree.Message{
				Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: missingStart}}, CreatedAt: r.Timestamp,
			})
		}
		b.put(r, tree.Message{Role: tree.RoleAssistant})
		b.current, b.results, b.calls = len(b.messages), map[string][]tree.ToolResult{}, nil
	}
	b.parts = append(b.parts, r)
	b.places[r.UUID] = b.current
	m := &b.messages[b.current-1]
	for _, part := range r.blocks {
		m.Blocks = b.append(m.Blocks, part)
		for len(b.calls) < len(m.Blocks) {
			b.calls = append(b.calls, part.ID)
		}
	}
	r.Message.copyAnswerTo(m)
}

// copyAnswerTo copies the metadata of an answer. If the answer spans several lines, the last
// line has the usage.
func (s *messageBody) copyAnswerTo(m *tree.Message) {
	m.Model = s.Model
	for stop, name := range stopNames {
		if name != "" && name == s.Stop {
			m.Stop = tree.StopReason(stop) //nolint:gosec // an index of a short array
		}
	}
	if u := s.Usage; u != nil {
		m.Usage = tree.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
	}
}

// close completes the open assistant message, and puts the user messages that come after it.
func (b *builder) close() {
	b.closeCalls()
	for _, h := range b.later {
		b.put(h.line, h.message)
	}
	b.later = nil
}

// closeCalls gives the calls of the open assistant message their results.
func (b *builder) closeCalls() {
	if b.current == 0 {
		return
	}
	m := &b.messages[b.current-1]
	parts, answered := b.parts, b.resultLine
	b.current, b.parts, b.resultLine = 0, nil, nil
	if len(m.Blocks) == 0 {
		b.messages = b.messages[:len(b.messages)-1]
		for _, r := range parts {
			delete(b.places, r.UUID)
		}
		return
	}
	results := b.resultsOf(m, parts)
	for _, left := range b.results {
		if len(left) > 0 {
			b.note(orphanResultNote)
		}
	}
	if len(results) == 0 {
		return
	}
	tools := tree.Message{Role: tree.RoleTool, Blocks: ResultBlocks(m, results)}
	if answered == nil {
		tools.CreatedAt = parts[len(parts)-1].Timestamp
		b.messages = append(b.messages, tools)
		return
	}
	b.put(answered, tools)
}

// resultsOf assigns to each call of a message the next result with its id, by block.
func (b *builder) resultsOf(m *tree.Message, parts []*record) map[int]tree.ToolResult {
	calls, missing := Calls(m), map[string]int{}
	for _, c := range calls {
		missing[b.calls[c.Ref.Block]]++
	}
	for id := range missing {
		missing[id] -= len(b.results[id])
	}
	b.collectSideResults(parts, missing)
	results := map[int]tree.ToolResult{}
	for _, c := range calls {
		id := b.calls[c.Ref.Block]
		found := b.results[id]
		if len(found) == 0 {
			b.note("a call without a result was closed as not finished")
			found = []tree.ToolResult{{Text: unfinishedResult, IsError: true}}
		}
		results[c.Ref.Block] = found[0]
		b.results[id] = found[1:]
	}
	return results
}

// collectSideResults adds results that are missing from the chain but exist on side branches.
// Each result of parallel calls follows the line that opened its call, so only one of them is
// in the chain. missing counts the missing results by call id.
func (b *builder) collectSideResults(parts []*record, missing map[string]int) {
	for _, p := range parts {
		for _, r := range b.byParent[p.UUID] {
			if r.inChain {
				continue
			}
			for _, part := range r.blocks {
				if part.Type == typeResult && missing[part.CallID] > 0 {
					missing[part.CallID]--
					b.results[part.CallID] = append(b.results[part.CallID], b.result(part))
				}
			}
		}
	}
}

// put appends the message of a record.
func (b *builder) put(r *record, m tree.Message) {
	m.CreatedAt = r.Timestamp
	if id, err := tree.ParseID[tree.Message](r.UUID); err == nil {
		m.ID = id
	}
	if upTo := b.places[r.SumsUpTo]; r.Summary && upTo > 0 {
		m.UpTo = upTo
		r.Message.copyAnswerTo(&m)
	}
	b.messages = append(b.messages, m)
	b.places[r.UUID] = len(b.messages)
}

// numberMessages assigns the ordinals.
func (b *builder) numberMessages() {
	for i := range b.messages {
		b.messages[i].Ordinal = i + 1
	}
}

// append appends a part. Parts of unknown types are left out with a note.
func (b *builder) append(blocks []tree.Block, part block) []tree.Block {
	switch part.Type {
	case typeText:
		if part.Text == "" {
			return blocks
		}
		return append(blocks, tree.Text{Text: part.Text})
	case typeThinking:
		return append(blocks, tree.Thinking{Text: part.Thinking, Signature: part.Signature})
	case typeUse:
		return append(blocks, tree.ToolUse{ProviderID: part.ID, Name: part.Name, Input: inputJSON(part.Input)})
	case typeImage, typeDocument:
		if part.Source != nil && part.Source.isKnown() {
			return append(blocks, decodeAttachment(part))
		}
	}
	b.note("parts of the kind %.40q were left out", part.Type)
	return blocks
}

// isKnown reports whether a source contains the data, or says where they are. Others name a file at
// a provider, or are a list of blocks.
func (s *source) isKnown() bool {
	return slices.Contains([]string{"", typeBase64, typeText, typeURL}, s.Type)
}

func decodeAttachment(part block) tree.Attachment {
	a := tree.Attachment{
		Kind: tree.AttachmentImage, MediaType: part.Source.MediaType, Name: part.Title, Data: part.Source.Data, URL: part.Source.URL,
	}
	if part.Type == typeDocument {
		a.Kind = tree.AttachmentDocument
	}
	return a
}

// result converts the result of a call to text. Other parts of it are replaced by their names.
// Content of another shape, or with too many parts, is kept as written.
func (b *builder) result(part block) tree.ToolResult {
	r := tree.ToolResult{IsError: part.IsError}
	if len(part.Content) == 0 || bytes.Equal(part.Content, []byte("null")) {
		return r
	}
	parts, err := contentOf(part.Content)
	if err != nil {
		var whole bytes.Buffer
		if json.Compact(&whole, part.Content) == nil {
			r.Text = whole.String()
		}
		return r
	}
	var texts []string
	for _, p := range parts {
		if p.Type == typeText {
			texts = append(texts, p.Text)
			continue
		}
		b.note("parts of the kind %.40q were left out of results", p.Type)
		texts = append(texts, fmt.Sprintf("[%s left out]", p.Type))
	}
	r.Text = strings.Join(texts, "\n")
	return r
}
