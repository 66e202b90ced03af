package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// templateData is the value of "." in a template.
type templateData struct {
	Agent     string
	Model     string
	Provider  string
	Reminder  string
	Depth     int
	Turn      int    // number of the next assistant message
	SinceUser int    // the same, counted since the last user message
	Prompt    string // the first user message
	User      string // the last user message
	Last      string // the last message, of a user or of tools
	Item      any    // of for_each
	N         int    // index of Item, from 0
}

// result is the result of a tool call. It prints as its text.
type result struct {
	Tool    string
	Input   any // decoded input of the call; nil if the call is unknown
	Text    string
	IsError bool
}

// lazyResult is a result that no template has used yet.
type lazyResult struct {
	result
	asked json.RawMessage // input of the call; nil if the call is unknown
}

func (r result) String() string { return r.Text }

// read returns the result with its input, which is decoded once.
func (u *lazyResult) read() result {
	if u.asked != nil && json.Unmarshal(u.asked, &u.Input) != nil {
		u.Input = string(u.asked)
	}
	u.asked = nil
	return u.result
}

// view is the request as the scenario sees it. It serves one Generate at a time. Its templates can
// call its methods, and are kept for the next request.
type view struct {
	scenario *Scenario
	bound    map[*snippet]*template.Template
	vars     map[string]any
	open     map[string]bool // vars that are being computed
	request
}

// request is the part of a view that belongs to one Generate.
type request struct {
	ended     func() error // returns the error of the context, once it has ended
	tools     []model.ToolSpec
	dot       templateData
	groups    groups
	messages  []tree.Message
	sinceUser int          // index of the first message after the last user message
	all       []lazyResult // collected at their first use; see collect
	since     int          // index in all of the first result since the last user message
	news      []any        // news of background agents
	newsSince int          // index of the first news since, or in, the last user message
	yielded   any
}

// groups are the submatches of the matching step's patterns.
type groups struct {
	texts []string
	names map[string]int
}

func newView(s *Scenario) *view {
	return &view{scenario: s, bound: map[*snippet]*template.Template{}, vars: map[string]any{}, open: map[string]bool{}}
}

// clear forgets the request and what was computed from it.
func (v *view) clear() {
	clear(v.vars)
	v.request = request{}
}

// read sets the request. The view must be clear.
func (v *view) read(ctx context.Context, req *model.Request) {
	v.request = request{
		ended: ctx.Err, tools: req.Tools,
		dot:      templateData{Agent: req.Agent, Model: req.Model, Provider: req.Provider, Reminder: req.Reminder, Depth: req.Depth, Turn: 1, SinceUser: 1},
		messages: req.Messages,
	}
	var answered *tree.Message
	first := true
	for i := range req.Messages {
		m := &req.Messages[i]
		switch m.Role {
		case tree.RoleUser:
			v.dot.Last, answered = m.Text(), nil
			before := len(v.news)
			if !v.readNews(m) {
				continue // the message contained only news of background agents
			}
			v.newsSince = before
			v.dot.User = v.dot.Last
			if first {
				v.dot.Prompt, first = v.dot.Last, false
			}
			v.dot.SinceUser, v.sinceUser = 1, i+1
		case tree.RoleAssistant:
			v.dot.Turn++
			v.dot.SinceUser++
		case tree.RoleTool:
			answered = m
		}
	}
	if answered != nil {
		v.dot.Last = results(answered)
	}
}

// collect collects the results of all tool calls. Most scenarios do not use them, and long
// conversations have many.
func (v *view) collect() {
	if v.all != nil {
		return
	}
	v.all = make([]lazyResult, 0, countResults(v.messages))
	var asked *tree.Message
	for i := range v.messages {
		switch m := &v.messages[i]; m.Role {
		case tree.RoleAssistant:
			asked = m
		case tree.RoleTool:
			v.addResults(asked, m)
		}
		if i+1 == v.sinceUser {
			v.since = len(v.all)
		}
	}
}

// countResults returns how many results the messages have at most.
func countResults(messages []tree.Message) (n int) {
	for i := range messages {
		if m := &messages[i]; m.Role == tree.RoleTool {
			n += len(m.Blocks)
		}
	}
	return n
}

// results returns the texts of a tool message, each on its own lines.
func results(answered *tree.Message) string {
	var all strings.Builder
	all.Grow(size(answered.Blocks) + len(answered.Blocks))
	for _, b := range answered.Blocks {
		if closed, ok := b.(tree.ToolResult); ok {
			if all.Len() > 0 {
				all.WriteByte('\n')
			}
			all.WriteString(closed.Text)
		}
	}
	return all.String()
}

// readNews reads the news of background agents from a user message, one per block, and reports
// whether the message contains anything else. Messages that came over a provider's API are not
// marked as news, so it recognises them by their form.
func (v *view) readNews(m *tree.Message) (more bool) {
	for _, b := range m.Blocks {
		text, ok := b.(tree.Text)
		if ok && (!m.News.Task.IsZero() || isEndNews(text.Text)) {
			v.news = append(v.news, text.Text)
			continue
		}
		more = true
	}
	return more
}

// isEndNews reports whether a text is the news of a background agent's end.
func isEndNews(text string) bool {
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return false // most texts are prose and need not be parsed
	}
	var news struct {
		TaskID     string `json:"task_id"`
		Status     string `json:"status"`
		Transcript string `json:"transcript"`
	}
	return json.Unmarshal([]byte(text), &news) == nil && news.TaskID != "" && news.Status != "" && news.Transcript != ""
}

// addResults adds the results of a tool message to the calls before it.
func (v *view) addResults(asked, answered *tree.Message) {
	for _, b := range answered.Blocks {
		closed, ok := b.(tree.ToolResult)
		if !ok {
			continue
		}
		r := lazyResult{result: result{Text: closed.Text, IsError: closed.IsError}}
		if asked != nil && closed.Block >= 0 && closed.Block < len(asked.Blocks) {
			if use, ok := asked.Blocks[closed.Block].(tree.ToolUse); ok {
				r.Tool, r.asked = use.Name, use.Input
			}
		}
		v.all = append(v.all, r)
	}
}

// match reports whether the condition of a step holds. If so, it stores the step's groups.
func (v *view) match(c *condition) (bool, error) {
	d := &v.dot
	if !globs(c.agent, d.Agent) || !globs(c.model, d.Model) ||
		!c.depth.holds(d.Depth) || !c.turn.holds(d.Turn) || !c.sinceUser.holds(d.SinceUser) {
		return false, nil
	}
	caught := groups{names: c.groups}
	if c.prompt != nil {
		found := c.prompt.FindStringSubmatch(d.Prompt)
		if found == nil {
			return false, nil
		}
		caught.texts = append(caught.texts, found[1:]...)
	}
	if c.last != nil {
		found := c.last.FindStringSubmatch(d.Last)
		if found == nil {
			return false, nil
		}
		caught.texts = append(caught.texts, found[1:]...)
	}
	v.groups = caught
	// A var may refer to groups, which belong to the step.
	clear(v.vars)
	if c.test == nil {
		return true, nil
	}
	value, err := v.value(c.test, d)
	if err != nil {
		return false, err
	}
	return isTrue(value), nil
}

func globs(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil // the pattern was checked by Parse
}

// functions returns the functions that use the conversation.
func (v *view) functions() template.FuncMap {
	return template.FuncMap{
		"result":     v.result,
		"results":    v.results,
		"allResults": v.allResults,
		"news":       func() []any { return v.news[v.newsSince:] },
		"allNews":    func() []any { return v.news },
		"hasTool":    v.hasTool,
		"group":      v.group,
		"var":        v.variable,
		"yield":      v.yield,
	}
}

func (v *view) results(tool string) []any {
	v.collect()
	return named(tool, v.all[v.since:])
}

func (v *view) allResults(tool string) []any {
	v.collect()
	return named(tool, v.all)
}

func named(tool string, all []lazyResult) []any {
	some := []any{}
	for i := range all {
		if globs(tool, all[i].Tool) {
			some = append(some, all[i].read())
		}
	}
	return some
}

func (v *view) result(tool string, n int) (any, error) {
	some := v.results(tool)
	if n < 0 || n >= len(some) {
		return nil, fmt.Errorf("no result %d of %q: there are %d since the last user message", n, tool, len(some))
	}
	return some[n], nil
}

func (v *view) hasTool(name string) bool {
	for _, t := range v.tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// group returns a submatch of the step's patterns, by number or name.
func (v *view) group(which any) (string, error) {
	n, ok := which.(int)
	if name, named := which.(string); named {
		n, ok = v.groups.names[name]
	}
	if !ok || n < 1 || n > len(v.groups.texts) {
		return "", fmt.Errorf("the patterns of this step have no group %v", which)
	}
	return v.groups.texts[n-1], nil
}

// variable computes a var of the scenario, once per step.
func (v *view) variable(name string) (any, error) {
	if value, ok := v.vars[name]; ok {
		return value, nil
	}
	s, ok := v.scenario.vars[name]
	if !ok {
		return nil, fmt.Errorf("the scenario has no var %q", name)
	}
	if v.open[name] {
		return nil, fmt.Errorf("the var %q needs itself", name)
	}
	v.open[name] = true
	defer delete(v.open, name)
	value, err := v.value(s, &v.dot)
	if err != nil {
		return nil, err
	}
	v.vars[name] = value
	return value, nil
}

// yield stores the value of an expression and produces no output.
func (v *view) yield(value any) string {
	v.yielded = value
	return ""
}
