package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Layer is what one definition or one session says about calls. The zero Layer has no opinion.
type Layer struct {
	Mode  Mode   `json:"mode,omitempty"`
	Allow []Rule `json:"allow,omitempty"`
	Ask   []Rule `json:"ask,omitempty"`
	Deny  []Rule `json:"deny,omitempty"`
	// Tools are entries for the only available tools; nil means all.
	Tools []string `json:"tools,omitempty"`
}

// Empty reports whether the layer has no opinion on anything.
func (l Layer) Empty() bool {
	return l.Mode == ModeUnspecified && len(l.Allow)+len(l.Ask)+len(l.Deny)+len(l.Tools) == 0
}

// decide returns the layer's decision and the reason for it. A layer without an opinion allows.
func (l Layer) decide(c Call) (_ Decision, by string) {
	if l.excludes(c.Tool) {
		return Deny, "the tool is not among those of a run in the background"
	}
	if r, ok := firstMatch(l.Deny, c, Rule.matchesPart); ok {
		return Deny, "the rule " + r.text + " denies it"
	}
	if r, ok := firstMatch(l.Ask, c, Rule.matchesPart); ok {
		return Ask, r.text
	}
	if l.allows(c) {
		return Allow, ""
	}
	decision := l.Mode.decide(c.Access)
	switch decision {
	case Deny:
		by = "the mode " + l.Mode.String() + " denies what does more than read"
	case Ask:
		by = callName(c)
	}
	return decision, by
}

// allows reports whether rules allow a call. Of a command line that joins plain commands, rules
// have to allow each command.
func (l Layer) allows(c Call) bool {
	if _, ok := firstMatch(l.Allow, c, Rule.matchesWhole); ok || c.Kind != KindCommand {
		return ok
	}
	joined := commands(c.Argument)
	for _, command := range joined {
		part := c
		part.Argument = command
		if _, ok := firstMatch(l.Allow, part, Rule.matchesWhole); !ok {
			return false
		}
	}
	return len(joined) > 0
}

func firstMatch(rules []Rule, c Call, matches func(Rule, Call) bool) (Rule, bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return matches(r, c) })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// excludes reports whether the tool is not among those of the layer.
func (l Layer) excludes(tool string) bool {
	return l.Tools != nil && !slices.ContainsFunc(l.Tools, func(entry string) bool { return EntryMatches(entry, tool) })
}

// hides reports whether the layer denies every call of a tool.
func (l Layer) hides(tool string, access Access) bool {
	named := func(r Rule) bool { return r.tool.match(tool, false) }
	switch {
	case l.excludes(tool):
		return true
	case slices.ContainsFunc(l.Deny, func(r Rule) bool { return r.covers(tool) }):
		return true
	case slices.ContainsFunc(l.Allow, named) || slices.ContainsFunc(l.Ask, named):
		return false
	}
	return l.Mode.decide(access) == Deny
}

// Permissions are what an agent's definition says about its runs.
type Permissions struct {
	Layer
	// Background are the only tools of a run in the background; nil means that such a run has the
	// same tools as any other.
	Background []string `json:"background,omitempty"`
	// Approvals decides what happens to the questions of a sub-agent.
	Approvals Approvals `json:"escalate,omitzero"`
}

// Pinned is the text of permissions, as a task stores it. An empty text means none.
type Pinned string

// Pin encodes the permissions.
func (p Permissions) Pin() Pinned {
	if p.Empty() && p.Background == nil && p.Approvals == ApprovalsUnspecified {
		return ""
	}
	return Pinned(encode(p))
}

// Open decodes the text. A text that cannot be decoded denies everything.
func (p Pinned) Open() Permissions {
	var out Permissions
	if p != "" && json.Unmarshal([]byte(p), &out) != nil {
		return Permissions{Layer: denyAll()}
	}
	return out
}

// Authority is a list of layers in its text form; a task stores it for its run. The empty
// Authority is a single layer with mode default.
type Authority string

// Verdict is an authority's decision on a call.
type Verdict struct {
	Decision Decision
	// Rules are what asked: rules, or the name of the call where a mode asked. If all of them have
	// been granted, the call need not ask again.
	Rules []string
	// Why says what denied the call.
	Why string
}

// RootAuthority returns the authority of a root, from its session's layer and its own permissions.
// If neither names a mode, the mode is default.
func RootAuthority(session Layer, own Permissions, background bool) Authority {
	layers := addLayers(nil, session, own.Layer)
	if session.Mode == ModeUnspecified && own.Mode == ModeUnspecified {
		if len(layers) == 0 {
			layers = []Layer{{}}
		}
		layers[0].Mode = ModeDefault
	}
	return encodeLayers(background, own, layers)
}

// ChildAuthority returns the authority of a task below a parent: its own layer and all of the
// parent's. If the task also runs for others, their layers are included.
func ChildAuthority(own Pinned, background bool, parent Authority, others ...Authority) Authority {
	c := childKey{own, background, parent}
	if len(others) > 0 {
		return c.authority(others)
	}
	return childCache.get(c, func(c childKey) Authority { return c.authority(nil) })
}

// childKey is everything that the authority of a task with only a parent depends on.
type childKey struct {
	own        Pinned
	background bool
	parent     Authority
}

func (c childKey) authority(others []Authority) Authority {
	own := c.own.Open()
	layers := addLayers(addLayers(nil, own.Layer), c.parent.Open()...)
	for _, a := range others {
		layers = addLayers(layers, a.Open()...)
	}
	return encodeLayers(c.background, own, layers)
}

// encodeLayers encodes layers. For a run in the background it adds a layer with the tools that
// such a run may use.
func encodeLayers(background bool, own Permissions, layers []Layer) Authority {
	if background && own.Background != nil {
		layers = addLayers(layers, Layer{Tools: own.Background})
	}
	text := Authority(encode(layers))
	if text == defaultAuthority {
		return ""
	}
	return text
}

const defaultAuthority = `[{"mode":"default"}]`

// addLayers adds layers that have an opinion and are not in the list yet. Repeating a layer would
// not change the strictest decision.
func addLayers(layers []Layer, more ...Layer) []Layer {
	for _, l := range more {
		text := encode(l)
		same := func(other Layer) bool { return encode(other) == text }
		if !l.Empty() && !slices.ContainsFunc(layers, same) {
			layers = append(layers, l)
		}
	}
	return layers
}

// Layers is a decoded authority. It is immutable.
type Layers []Layer

// Open decodes the text. A text that cannot be decoded denies everything.
func (a Authority) Open() Layers { return openedCache.get(a, Authority.decode) }

func (a Authority) decode() Layers {
	if a == "" || a == defaultAuthority {
		return Layers{{Mode: ModeDefault}}
	}
	var layers Layers
	if json.Unmarshal([]byte(a), &layers) != nil || len(layers) == 0 {
		return Layers{denyAll()}
	}
	return layers
}

// denyAll returns a layer that denies everything.
func denyAll() Layer { return Layer{Tools: []string{""}} }

// Judge decides on a call. To decide on many calls, use Open once and then [Layers.Judge].
func (a Authority) Judge(c Call) Verdict { return a.Open().Judge(c) }

// Judge decides on a call.
func (ls Layers) Judge(c Call) Verdict {
	v := Verdict{}
	for _, l := range ls {
		decision, by := l.decide(c)
		switch {
		case decision == Deny:
			return Verdict{Decision: Deny, Why: by}
		case decision == Ask && !slices.Contains(v.Rules, by):
			v.Decision, v.Rules = Ask, append(v.Rules, by)
		}
	}
	return v
}

// Hides reports whether every call of a tool is denied, so that a model need not know the tool.
func (ls Layers) Hides(tool string, access Access) bool {
	return slices.ContainsFunc(ls, func(l Layer) bool { return l.hides(tool, access) })
}

// Granted reports whether everything that asked has been granted.
func (v Verdict) Granted(grants []string) bool {
	return v.Decision == Ask && !slices.ContainsFunc(v.Rules, func(r string) bool { return !slices.Contains(grants, r) })
}

// String formats the layer for people, strictest rules first.
func (l Layer) String() string {
	var out []string
	if l.Mode != ModeUnspecified {
		out = append(out, "mode "+l.Mode.String())
	}
	for _, list := range []struct {
		name  string
		rules []Rule
	}{{"deny", l.Deny}, {"ask", l.Ask}, {"allow", l.Allow}} {
		for _, r := range list.rules {
			out = append(out, list.name+" "+r.text)
		}
	}
	return strings.Join(out, ", ")
}

// encode encodes a value of this package, which cannot fail.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("policy: encoding %T: %v", v, err))
	}
	return string(text)
}

// Within reports whether an authority contains all layers of another one, so that it is never less
// strict.
func (a Authority) Within(other Authority) bool {
	held := a.Open()
	for _, l := range other.Open() {
		text := encode(l)
		if !slices.ContainsFunc(held, func(h Layer) bool { return encode(h) == text }) {
			return false
		}
	}
	return true
}
