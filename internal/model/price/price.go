// Package price calculates the cost of tokens. Tables are YAML files. The built-in table is
// prices.yaml, with the providers' prices at the time it was written.
package price

import (
	_ "embed"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/yamltree"
)

//go:embed prices.yaml
var standard []byte

// Micros is an amount of money in millionths of a US dollar.
type Micros int64

// Table is an immutable list of prices.
type Table struct{ entries func() []entry }

// entry is the price of the models that match a glob, in US dollars per million tokens.
type entry struct {
	Name       string  `yaml:"name"`
	Over       int64   `yaml:"over"` // applies only to prompts with more tokens than this
	Input      float64 `yaml:"input"`
	Output     float64 `yaml:"output"`
	CacheRead  float64 `yaml:"cache_read"`
	CacheWrite float64 `yaml:"cache_write"`
}

// builtIn gives the entries of the built-in table.
var builtIn = sync.OnceValue(func() []entry {
	entries, err := parse("prices.yaml", standard)
	if err != nil {
		panic("the built-in prices are broken: " + err.Error()) // a test rules that out
	}
	return entries
})

// Standard returns the built-in table. It is parsed meanwhile: that takes milliseconds of a start.
func Standard() *Table {
	go builtIn()
	return &Table{builtIn}
}

// Load reads a table from a file. Its prices take precedence over the built-in ones.
func Load(file string) (*Table, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the prices: %w", err)
	}
	own, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(own, builtIn())
	return &Table{func() []entry { return all }}, nil
}

// parse reads the entries of a table. Errors name source as the file.
func parse(source string, data []byte) ([]entry, error) {
	var file struct {
		Prices []entry `yaml:"prices"`
	}
	if err := yamltree.Decode(data, &file); err != nil {
		return nil, yamltree.Source{Name: source}.Syntax(err)
	}
	for i, e := range file.Prices {
		_, err := path.Match(e.Name, "")
		if e.Name == "" || err != nil {
			return nil, fmt.Errorf("%s: price %d: the name is %q; expected that of a model, or a glob", source, i+1, e.Name)
		}
		if e.Over < 0 || !isPrice(e.Input) || !isPrice(e.Output) || !isPrice(e.CacheRead) || !isPrice(e.CacheWrite) {
			return nil, fmt.Errorf("%s: price %d, %s: no number may be below 0, and no price above %d", source, i+1, e.Name, maxPrice)
		}
	}
	return file.Prices, nil
}

// maxPrice bounds the prices, in US dollars per million tokens.
const maxPrice = 1_000_000

// isPrice reports whether a number can be a price. Infinite ones, and those that are none, can't.
func isPrice(dollars float64) bool { return dollars >= 0 && dollars <= maxPrice }

// Cost returns what the provider charges for the tokens, by the first matching entry. ok is
// false if no entry matches.
func (t *Table) Cost(model string, u tree.Usage) (_ Micros, ok bool) {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	for _, e := range t.entries() {
		if fits, err := path.Match(e.Name, model); !fits || err != nil || e.Over > 0 && prompt <= e.Over {
			continue
		}
		// Dollars per million tokens equal millionths of a dollar per token.
		return Micros(float64(u.Input)*e.Input + float64(u.Output)*e.Output +
			float64(u.CacheRead)*e.CacheRead + float64(u.CacheWrite)*e.CacheWrite + 0.5), true
	}
	return 0, false
}
