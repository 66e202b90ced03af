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
		{"gpt-5.4", tree.Usage{Input: 200_000, CacheRead: 72_000, Output: 1000}, 500_000 + 18_000 + 15_000, true},
		{"gpt-5.4-2026-03-05", tree.Usage{Input: 200_000, CacheRead: 72_001, Output: 1000}, 1_000_000 + 36_001 + 22_500, true},
		{"gpt-5.4-mini", tree.Usage{Input: 300_000}, 225_000, true},
		{"gpt-5.5", tree.Usage{Input: 300_000, Output: 1000}, 3_000_000 + 45_000, true},
		{"gpt-5.5-pro", tree.Usage{Input: 300_000, Output: 1000}, 18_000_000 + 270_000, true},
		{"gpt-5.6", tree.Usage{Input: 1000, Output: 1000}, 24_000, true},
		{"gpt-5.6-sol-2026-07-09", tree.Usage{Input: 1000, CacheRead: 1000, CacheWrite: 1000, Output: 1000}, 4000 + 400 + 5000 + 20_000, true},
		{"gpt-5.6-terra", tree.Usage{Input: 272_001, Output: 1000}, 4*272_001 + 18_000, true},
		{"gpt-5.6-luna", tree.Usage{CacheRead: 1000, CacheWrite: 1000, Output: 1000}, 20 + 250 + 1200, true},
		{"gpt-6-luna", tree.Usage{CacheRead: 1000, CacheWrite: 1000, Output: 1000}, 10 + 125 + 500, true},
		{"gpt-6-sol", tree.Usage{Input: 272_001}, 4 * 272_001, true},
		{"gpt-6.9-nova", tree.Usage{Input: 1000}, 0, false},
		{"gpt-5", tree.Usage{Input: 1000, CacheRead: 1000, Output: 1000}, 1250 + 125 + 10_000, true},
		{"gpt-5-2025-08-07", tree.Usage{Output: 1000}, 10_000, true},
		{"gpt-5-mini-2025-08-07", tree.Usage{Input: 1000, CacheRead: 1000, Output: 1000}, 250 + 25 + 2000, true},
		{"gpt-5-nano", tree.Usage{Output: 1000}, 400, true},
		{"gpt-5-pro", tree.Usage{Output: 1000}, 0, false},
		{"gpt-4.1-2025-04-14", tree.Usage{Input: 1000, CacheRead: 1000, Output: 1000}, 2000 + 500 + 8000, true},
		{"gpt-4.1-mini", tree.Usage{Input: 1000, Output: 1000}, 400 + 1600, true},
		{"claude-fable-5", tree.Usage{CacheRead: 1000}, 1000, true},
		{"claude-fable-5-20260609", tree.Usage{CacheRead: 1000}, 1000, true},
		{"claude-fable-5-1", tree.Usage{CacheRead: 1000}, 250, true},
		{"claude-mythos-5-1-20260901", tree.Usage{CacheRead: 1000}, 250, true},
		{"claude-opus-4-20250514", tree.Usage{Output: 1000}, 75_000, true},
		{"claude-opus-4-0", tree.Usage{Output: 1000}, 75_000, true},
		{"claude-opus-4-5-20251101", tree.Usage{Output: 1000}, 25_000, true},
		{"claude-opus-5-20260724", tree.Usage{Output: 1000}, 25_000, true},
		{"claude-sonnet-4-5@20250929", tree.Usage{Output: 1000}, 15_000, true},
		{"claude-sonnet-4-6", tree.Usage{Output: 1000}, 15_000, true},
		{"claude-sonnet-5-5", tree.Usage{CacheRead: 1000}, 100, true},
		{"claude-haiku-4-5-20251001", tree.Usage{Output: 1000}, 5000, true},
		{"claude-fable-5-2", tree.Usage{Input: 1000}, 0, false},
		{"claude-mythos-5-2", tree.Usage{Input: 1000}, 0, false},
		{"claude-sonnet-5-9", tree.Usage{Input: 1000}, 0, false},
		{"claude-sonnet-5-50", tree.Usage{Input: 1000}, 0, false},
		{"claude-opus-5-7", tree.Usage{Input: 1000}, 0, false},
		{"claude-opus-4-9", tree.Usage{Input: 1000}, 0, false},
		{"claude-opus-4-9-20270101", tree.Usage{Input: 1000}, 0, false},
		{"claude-haiku-5", tree.Usage{Input: 1000}, 0, false},
		{"qwen3:8b", tree.Usage{Input: 1000}, 0, false},
	} {
		if got, ok := price.Standard().Cost(test.model, test.usage); got != test.want || ok != test.ok {
			t.Errorf("%s, %+v: %d, %t; want %d, %t", test.model, test.usage, got, ok, test.want, test.ok)
		}
	}
}

func load(t *testing.T, text string) (*price.Table, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return price.Load(file)
}

func TestOwnPricesGoFirst(t *testing.T) {
	t.Parallel()
	table, err := load(t, "\ufeffprices:\n- {name: 'gpt-5.4', input: 7}\n- {name: 'qwen*'}\n")
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
		"prices:\n- {name: x, inputs: 3}":   "inputs",
		"prices:\n- {input: 3}":             `price 1: the name is ""`,
		"prices:\n- {name: '[', input: 3}":  "or a glob",
		"prices:\n- {name: x, output: -1}":  "below 0",
		"prices:\n- {name: x, input: .nan}": "no price above 1000000",
		"prices:\n- {name: x, input: .inf}": "no price above 1000000",
		"prices: 5":                         "own.yaml",
		"prices: []\n---\nprices: []\n":     "one YAML document",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
