// Package policy decides what an agent may do. It is pure, and knows neither tools nor tasks.
//
// A [Call] is a tool's name, its effect on the world, and its argument. A [Layer] is what one
// definition or one session says about calls: a mode, and rules such as bash(git *) that allow,
// ask or deny. An [Authority] is a list of layers: its own and those of all its ancestors. Its
// decision on a call is the strictest decision of its layers. A child has its parent's layers and
// one more, so whatever its own layer says, a child can do nothing that its parent could not do.
//
// Within a layer, deny takes precedence over ask, and ask over allow. The mode decides on calls
// that match no rule:
//
//	              reads   edits   does anything else
//	default       allow   ask     ask
//	accept_edits  allow   allow   ask
//	plan          allow   deny    deny
//	bypass        allow   allow   allow
//
// A layer without a mode has no opinion on calls that match none of its rules. The first layer of
// an authority always has a mode.
package policy
