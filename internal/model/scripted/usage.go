package scripted

import "github.com/coppice-run/coppice/internal/tree"

// bytesPerToken is the usual estimate for English text and code.
const bytesPerToken = 4

// usage returns the counts of the step, and estimates by length for those that it does not set.
func (p *player) usage(blocks []tree.Block) tree.Usage {
	heard := len(p.req.System)
	for _, t := range p.req.Tools {
		heard += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for i := range p.req.Messages {
		heard += size(p.req.Messages[i].Blocks)
	}
	said := p.step.usage
	return tree.Usage{
		Input:      or(said.input, tokens(heard)),
		Output:     or(said.output, tokens(size(blocks))),
		CacheRead:  or(said.cacheRead, 0),
		CacheWrite: or(said.cacheWrite, 0),
	}
}

func or(said *int64, guess int64) int64 {
	if said != nil {
		return *said
	}
	return guess
}

func tokens(bytes int) int64 { return int64(bytes+bytesPerToken-1) / bytesPerToken }

func size(blocks []tree.Block) int {
	n := 0
	for _, b := range blocks {
		switch b := b.(type) {
		case tree.Text:
			n += len(b.Text)
		case tree.Thinking:
			n += len(b.Text)
		case tree.ToolUse:
			n += len(b.Name) + len(b.Input)
		case tree.ToolResult:
			n += len(b.Text)
		}
	}
	return n
}
