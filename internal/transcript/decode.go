package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// MaxEncodedBytes bounds the size of a transcript file.
const MaxEncodedBytes = 32 << 20

// maxRecords bounds its lines. Most lines of an agent's file are about progress.
const maxRecords = 200_000

// maxNotes bounds the notes, because a file may contain any number of unknown types.
const maxNotes = 100

// moreNotes is the last note if there are more.
const moreNotes = "more was left out or put in than is said here"

// History is a decoded conversation.
type History struct {
	Messages []tree.Message // a session can start with these
	Notes    []string       // what was left out or inserted
}

// Decode reads a conversation from JSON lines. If there are several ends, it takes the newest
// and the chain of messages before it. Lines of sub-agents count only if there are no others.
// Lines that are not messages of user or assistant are skipped. What a conversation requires is
// inserted: results for calls that have none, and a user message at the start. Errors name the
// line.
func Decode(data []byte) (*History, error) {
	if len(data) > MaxEncodedBytes {
		return nil, tree.ErrTooLarge.With("the transcript has more than %d bytes", MaxEncodedBytes)
	}
	f := &file{byID: map[string]*record{}, byParent: map[string][]*record{}, seenNotes: map[string]bool{}, goesOn: map[answerPart]bool{}}
	if err := f.parse(bytes.TrimPrefix(data, []byte("\ufeff"))); err != nil { // some editors start a file with it
		return nil, err
	}
	chain, err := f.chain()
	if err != nil {
		return nil, err
	}
	b := &builder{file: f, places: map[string]int{}}
	for _, r := range chain {
		b.add(r)
	}
	b.close()
	if len(b.messages) == 0 {
		return nil, f.noMessage()
	}
	b.numberMessages()
	return &History{Messages: b.messages, Notes: f.notes}, nil
}

// record is a line that was read.
type record struct {
	line
	number    int
	isMessage bool // a message of user or assistant
	blocks    []block
	parent    string
	previous  *record // the message before it; nil for the first
	isEnd     bool    // no message follows it
	inChain   bool    // part of the chosen chain
}

type file struct {
	records   []*record
	byID      map[string]*record
	byParent  map[string][]*record // by the uuid of the parent line
	notes     []string
	seenNotes map[string]bool // the notes already made
	skipped   int             // the first line without a uuid; 0: none
	goesOn    map[answerPart]bool
}

// answerPart is a line of an answer, and where the next one is looked for.
type answerPart struct {
	line      *record
	sidechain bool
}

// noMessage says what a transcript without a message should have.
func (f *file) noMessage() error {
	found := ""
	if f.skipped > 0 {
		found = fmt.Sprintf(": line %d has neither a type nor a uuid that make it one", f.skipped)
	}
	return tree.ErrBadInput.With("the transcript has no message%s; expected lines such as %s", found,
		`{"type":"user","uuid":"1","message":{"role":"user","content":"Hello"}}`)
}

// note records, once per text, what was left out or inserted.
func (f *file) note(format string, args ...any) {
	if len(f.notes) > maxNotes {
		return
	}
	note := fmt.Sprintf(format, args...)
	if f.seenNotes[note] {
		return
	}
	if len(f.notes) == maxNotes {
		note = moreNotes
	}
	f.seenNotes[note] = true
	f.notes = append(f.notes, note)
}

func (f *file) parse(data []byte) error {
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if number > maxRecords {
			return tree.ErrTooLarge.With("the transcript has more than %d lines", maxRecords)
		}
		r := &record{number: number}
		if err := r.read(text); err != nil {
			return lineError(number, err)
		}
		switch {
		case r.UUID == "":
			f.skipped = cmp.Or(f.skipped, number)
			continue // about the session or a file, not a message
		case f.byID[r.UUID] != nil:
			f.note("a line that repeats the uuid of another was left out")
			continue
		}
		f.records = append(f.records, r)
		f.byID[r.UUID] = r
		f.byParent[r.parent] = append(f.byParent[r.parent], r)
	}
	return nil
}

// lineError returns the error for a line that is too large or invalid.
func lineError(number int, err error) error {
	kind := tree.ErrBadInput
	if errors.Is(err, errTooManyParts) {
		kind = tree.ErrTooLarge
	}
	return kind.With("line %d of the transcript: %v", number, err)
}

// read parses a line. Of a line that is not a message it reads only the links.
func (r *record) read(text []byte) error {
	var kind struct {
		UUID       string  `json:"uuid"`
		ParentUUID *string `json:"parentUuid"`
		Sidechain  bool    `json:"isSidechain"`
		Type       string  `json:"type"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return jsonError(err)
	}
	r.UUID, r.Sidechain, r.Type = kind.UUID, kind.Sidechain, kind.Type
	if kind.ParentUUID != nil {
		r.parent = *kind.ParentUUID
	}
	if kind.Type != typeUser && kind.Type != typeAssistant || kind.UUID == "" {
		if kind.UUID == "" && (kind.Type == typeUser || kind.Type == typeAssistant) {
			return errors.New("expected a uuid")
		}
		return nil
	}
	if err := json.Unmarshal(text, &r.line); err != nil {
		return fmt.Errorf("expected a message: %w", err)
	}
	if r.Message == nil {
		return fmt.Errorf("expected a message of type %s", r.Type)
	}
	r.isMessage = true
	var err error
	r.blocks, err = contentOf(r.Message.Content)
	return err
}

// errTooManyParts reports content with more blocks than a message may have.
var errTooManyParts = fmt.Errorf("expected at most %d parts", tree.MaxBlocks)

// contentOf reads content, which is a string or a list of blocks. It stops at the maximum
// number of blocks, because a decoded block takes far more memory than the few bytes that it
// can be written in.
func contentOf(content json.RawMessage) ([]block, error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []block{{Type: typeText, Text: text}}, nil
	}
	d := json.NewDecoder(bytes.NewReader(content))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, errors.New("expected content, a text or a list of blocks")
	}
	var blocks []block
	for d.More() {
		if len(blocks) == tree.MaxBlocks {
			return nil, errTooManyParts
		}
		var b block
		if err := d.Decode(&b); err != nil {
			return nil, fmt.Errorf("expected content, a text or a list of blocks: %w", err)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// UnmarshalJSON reads a source. The data of a plain text are the text itself, and those of other
// types are in base64.
func (s *source) UnmarshalJSON(written []byte) error {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(written, &kind); err != nil {
		return err
	}
	if kind.Type != typeText {
		type inBase64 source
		return json.Unmarshal(written, (*inBase64)(s))
	}
	var plain struct {
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	if err := json.Unmarshal(written, &plain); err != nil {
		return err
	}
	*s = source{Type: typeText, MediaType: cmp.Or(plain.MediaType, "text/plain"), Data: []byte(plain.Data)}
	return nil
}

// chain returns the messages from the first to the newest end, in order.
func (f *file) chain() ([]*record, error) {
	var speaking []*record
	for _, main := range []bool{true, false} {
		for _, r := range f.records {
			if r.isMessage && !(main && r.Sidechain) {
				speaking = append(speaking, r)
			}
		}
		if len(speaking) > 0 {
			break
		}
	}
	if err := f.linkMessages(speaking); err != nil {
		return nil, err
	}
	var end *record
	for _, r := range speaking {
		if r.isEnd && !f.isBeside(r) && (end == nil || !r.Timestamp.Before(end.Timestamp)) {
			end = r
		}
	}
	var chain []*record
	for r := end; r != nil; r = r.previous {
		r.inChain = true
		chain = append(chain, r)
	}
	if f.isCutOff(chain) {
		f.note("the conversation begins where the file lacks the line before it; what came earlier was left out")
	}
	slices.Reverse(chain)
	return chain, nil
}

// isBeside reports whether a line has only results for an answer that goes on in another line. They
// belong to the chain of that one.
func (f *file) isBeside(r *record) bool {
	part := r.previous
	if r.Type != typeUser || part == nil || part.Message.ID == "" || slices.ContainsFunc(r.blocks, func(b block) bool { return b.Type != typeResult }) {
		return false
	}
	key := answerPart{part, r.Sidechain}
	goesOn, known := f.goesOn[key] // or each of many lines after the same one would look at all the others
	if !known {
		goesOn = slices.ContainsFunc(f.byParent[part.UUID], func(next *record) bool {
			return next.isMessage && next.Sidechain == r.Sidechain && next.Type == typeAssistant && next.Message.ID == part.Message.ID
		})
		f.goesOn[key] = goesOn
	}
	return goesOn
}

// isCutOff reports whether the first message of a chain, last in it, comes after a line that is not
// in the file.
func (f *file) isCutOff(chain []*record) bool {
	if len(chain) == 0 {
		return false
	}
	at := chain[len(chain)-1]
	for f.byID[at.parent] != nil {
		at = f.byID[at.parent]
	}
	return at.parent != ""
}

// linkMessages sets the previous message of each message, skipping lines that are not messages.
func (f *file) linkMessages(speaking []*record) error {
	if err := f.checkCycles(); err != nil {
		return err
	}
	before := map[*record]*record{} // for lines that are not messages
	for _, r := range speaking {
		r.isEnd = true
	}
	for _, r := range speaking {
		var path []*record
		at := f.byID[r.parent]
		for at != nil && !at.isMessage {
			if known, ok := before[at]; ok {
				at = known
				break
			}
			path = append(path, at)
			at = f.byID[at.parent]
		}
		for _, p := range path {
			before[p] = at
		}
		if r.previous = at; at != nil {
			at.isEnd = false
		}
	}
	return nil
}

// checkCycles rejects lines that are their own ancestors.
func (f *file) checkCycles() error {
	const looking, leadsOut = 1, 2
	state := map[*record]int{}
	for _, r := range f.records {
		var path []*record
		at := r
		for at != nil && state[at] == 0 {
			state[at] = looking
			path = append(path, at)
			at = f.byID[at.parent]
		}
		if at != nil && state[at] == looking {
			return tree.ErrBadInput.With("line %d of the transcript: it comes after itself", at.number)
		}
		for _, p := range path {
			state[p] = leadsOut
		}
	}
	return nil
}

// jsonError says why a line cannot be read, without the names of Go types.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return fmt.Errorf("expected a JSON object: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("expected a JSON object, found a JSON %s", wrong.Value)
	}
	return fmt.Errorf("the field %s is a JSON %s", wrong.Field, wrong.Value)
}
