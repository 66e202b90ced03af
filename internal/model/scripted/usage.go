package scripted

import "github.com/coppice-run/coppice/internal/tree"

// bytesPerToken is the usual estimate for English text and code.
const bytesPerToken = 4

// usage returns the counts of the step, and estimates by length for those that it does not set.
func (p *player) usage(blocks []tree.Block) tree.Usage {
	said := p.step.usage
	return tree.Usage{
		Input:      or(said.input, func() int64 { return tokens(p.heard()) }),
		Output:     or(said.output, func() int64 { return tokens(size(blocks)) }),
		CacheRead:  or(said.cacheRead, none),
		CacheWrite: or(said.cacheWrite, none),
	}
}

// heard returns the length of the request, in bytes.
func (p *player) heard() int {
	n := len(p.req.System)
	for _, t := range p.req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for i := range p.req.Messages {
		n += size(p.req.Messages[i].Blocks)
	}
	return n
}

func or(said *int64, guess func() int64) int64 {
	if said != nil {
		return *said
	}
	return guess()
}

func none() int64 { return 0 }

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
