// Package policy says what an agent may do: it is pure, and knows neither tools
// nor tasks.
//
// A [Call] is a tool's name, what the tool does to the world, and its argument. A
// [Layer] is what one definition, or one session, says about calls: a mode, and
// rules such as bash(git *) that allow, ask or deny. An [Authority] is a list of
// layers, its own and those of everybody above it, and its decision on a call is
// the strictest of theirs. So whatever a child's own layer says, the child can do
// nothing that its parent could not: its layers are its parent's and one more.
//
// Within a layer deny beats ask beats allow, and what no rule names is left to
// the mode:
//
//	              reads   edits   does anything else
//	default       allow   ask     ask
//	accept_edits  allow   allow   ask
//	plan          allow   deny    deny
//	bypass        allow   allow   allow
//
// A layer without a mode has no opinion on what its rules don't name. The first
// layer of an authority always has a mode.
package policy
