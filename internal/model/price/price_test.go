package price_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model/price"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestCost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		model string
		usage tree.Usage
		want  price.Micros
		ok    bool
	}{
		{"claude-sonnet-4-5-20250929", tree.Usage{Input: 1000, Output: 100, CacheRead: 10_000, CacheWrite: 2000}, 3000 + 1500 + 3000 + 7500, true},
		{"claude-opus-4-1", tree.Usage{Output: 1000}, 75_000, true},
		{"claude-opus-4-8", tree.Usage{Output: 1000}, 25_000, true},
		{"claude-opus-5-5", tree.Usage{Output: 1000}, 20_000, true},
		{"claude-haiku-5-5", tree.Usage{Input: 50_000, CacheRead: 50_000}, 5500, true},
		{"claude-haiku-5-5", tree.Usage{Input: 50_000, CacheRead: 50_001}, 27_500, true},
		{"gpt-5.4-mini-2026-03-17", tree.Usage{Input: 3}, 2, true},
		{"gpt-5.4", tree.Usage{}, 0, true},
		{"qwen3:8b", tree.Usage{Input: 1000}, 0, false},
	} {
		if got, ok := price.Standard().Cost(test.model, test.usage); got != test.want || ok != test.ok {
			t.Errorf("%s, %+v: %d, %t; want %d, %t", test.model, test.usage, got, ok, test.want, test.ok)
		}
	}
}

func TestOwnPricesGoFirst(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(file, []byte("prices:\n- {name: 'gpt-5.4', input: 7}\n- {name: 'qwen*'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := price.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]price.Micros{"gpt-5.4": 7, "qwen3:8b": 0, "gpt-5.5": 5} {
		if got, ok := table.Cost(name, tree.Usage{Input: 1}); got != want || !ok {
			t.Errorf("%s: %d, %t", name, got, ok)
		}
	}
}

func TestWrongTables(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"prices:\n- {name: x, inputs: 3}":  "inputs",
		"prices:\n- {input: 3}":            `price 1: the name is ""`,
		"prices:\n- {name: '[', input: 3}": "or a glob",
		"prices:\n- {name: x, output: -1}": "below 0",
		"prices: 5":                        "x.yaml",
	} {
		if _, err := price.Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
