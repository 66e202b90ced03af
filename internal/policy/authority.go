package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Layer is what one definition or one session says. The zero layer has no opinion.
type Layer struct {
	Mode  Mode   `json:"mode,omitempty"`
	Allow []Rule `json:"allow,omitempty"`
	Ask   []Rule `json:"ask,omitempty"`
	Deny  []Rule `json:"deny,omitempty"`
	// Tools are entries for the only tools there are; nil means all.
	Tools []string `json:"tools,omitempty"`
}

// Empty reports whether the layer has no opinion on anything.
func (l Layer) Empty() bool {
	return l.Mode == ModeUnspecified && len(l.Allow)+len(l.Ask)+len(l.Deny)+len(l.Tools) == 0
}

// decide gives the layer's decision and what it rests on; having no opinion is to
// allow.
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

// allows reports whether rules allow a call: of a command line that joins plain
// commands, each of them.
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

// without reports whether the tool is not among those of the layer.
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

// Permissions are what an agent's definition says of its runs.
type Permissions struct {
	Layer
	// Background are the only tools of a run in the background; nil means that
	// such a run has all that any other has.
	Background []string `json:"background,omitempty"`
	// Approvals is what becomes of what a sub-agent has to ask about.
	Approvals Approvals `json:"escalate,omitzero"`
}

// Pinned is the text of permissions, as a task keeps them. Empty is none.
type Pinned string

// Pin gives the text.
func (p Permissions) Pin() Pinned {
	if p.Empty() && p.Background == nil && p.Approvals == ApprovalsUnspecified {
		return ""
	}
	return Pinned(encode(p))
}

// Open reads the text. What can't be read denies everything.
func (p Pinned) Open() Permissions {
	var out Permissions
	if p != "" && json.Unmarshal([]byte(p), &out) != nil {
		return Permissions{Layer: denyAll()}
	}
	return out
}

// PinLayer gives the text of a layer.
func PinLayer(l Layer) Pinned { return Permissions{Layer: l}.Pin() }

// Authority is a list of layers in its text form; a task keeps it for its run. The
// empty one is a layer of mode default.
type Authority string

// Verdict is an authority's decision on a call.
type Verdict struct {
	Decision Decision
	// Rules are what asked: rules, or the very call where a mode asked. Whoever
	// holds them all granted need not ask again.
	Rules []string
	// Why says what denied.
	Why string
}

// OfRoot gives the authority of a root, whose session may say something of its
// own. If neither names a mode, it is default.
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

// Below gives the authority of a task below a parent, and below others if it runs for one of
// them: its own layer, and all of theirs.
func ChildAuthority(own Pinned, background bool, parent Authority, others ...Authority) Authority {
	c := childKey{own, background, parent}
	if len(others) > 0 {
		return c.authority(others)
	}
	return childCache.get(c, func(c childKey) Authority { return c.authority(nil) })
}

// child is what the authority of a task depends on that is below its parent alone.
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

// written gives the text of layers, with that of a run in the background if it is one.
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

// add adds layers that say something and are not among them yet: the strictest
// of a list does not depend on how often a layer is in it.
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

// Layers is an authority that was read. It never changes.
type Layers []Layer

// Open reads the text. What can't be read denies everything.
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

// nothing denies everything.
func denyAll() Layer { return Layer{Tools: []string{""}} }

// Judge decides on a call. Whoever has many decides with the layers.
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

// Hides reports whether every call of a tool is denied, so that a model need not
// hear of it.
func (ls Layers) Hides(tool string, access Access) bool {
	return slices.ContainsFunc(ls, func(l Layer) bool { return l.hides(tool, access) })
}

// Granted reports whether all that asked has been granted.
func (v Verdict) Granted(grants []string) bool {
	return v.Decision == Ask && !slices.ContainsFunc(v.Rules, func(r string) bool { return !slices.Contains(grants, r) })
}

// String shows the layers, strictest rules first, for a person.
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

// encode gives the JSON of values of this package, which always have one.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("policy: encoding %T: %v", v, err))
	}
	return string(text)
}

// Within reports whether an authority has all layers of another one, so that it
// can never decide less strictly.
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
