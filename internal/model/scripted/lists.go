package scripted

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

// itemWeight is the weight of a list item or record in addition to its text, in the unit of
// maxText.
const itemWeight = 16

// listFunctions returns the functions for lists. Several take an optional key before the list.
// With it they use that field of the records, without it the items themselves.
func listFunctions() template.FuncMap {
	return template.FuncMap{
		"list": func(items ...any) ([]any, error) { return bearable(slices.Clone(items)) },
		"append": func(v any, items ...any) ([]any, error) {
			l, err := list(v)
			return bearableOr(slices.Concat(l, items), err)
		},
		"dict":    dict,
		"numbers": numbers,
		"first":   first,
		"sort":    sortBy,
		"top":     top,
		"sum":     sum,
		"pluck":   pluck,
		"get":     get,
		"tally":   tally,
		"keep":    func(args ...any) ([]any, error) { return filter(true, args) },
		"drop":    func(args ...any) ([]any, error) { return filter(false, args) },
		"default": func(fallback, v any) any { return ifEmpty(v, fallback) },
		"add": func(a, b any) (int, error) {
			return arithmetic(a, b, func(x, y int) (int, error) { return x + y, nil })
		},
		"sub": func(a, b any) (int, error) {
			return arithmetic(a, b, func(x, y int) (int, error) { return x - y, nil })
		},
		"mul": func(a, b any) (int, error) { return arithmetic(a, b, multiply) },
		"div": func(a, b any) (int, error) { return arithmetic(a, b, divide) },
		"int": number,
	}
}

// list converts v to a list. Nothing, and the empty text that get returns for a missing field,
// are an empty list.
func list(v any) ([]any, error) {
	switch v := v.(type) {
	case []any:
		return v, nil
	case nil:
		return nil, nil
	case string:
		if v == "" {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("expected a list, got %s", describe(v))
}

// number converts v to a whole number.
func number(v any) (int, error) {
	switch v := v.(type) {
	case int:
		return v, nil
	case float64: // of JSON
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), nil
		}
	case string:
		if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil {
			return n, nil
		}
		return 0, fmt.Errorf("expected a whole number, got %q", shorten(v, 80))
	}
	return 0, fmt.Errorf("expected a whole number, got %v", describe(v))
}

// weigh returns the weight of a value: its text in bytes, and itemWeight for each item. It
// stops with an error soon after the weight exceeds maxText.
func weigh(v any) (int, error) {
	left := maxText
	if !lighten(&left, v) {
		return 0, errTooLong
	}
	return maxText - left, nil
}

func lighten(left *int, v any) bool {
	switch v := v.(type) {
	case string:
		*left -= len(v)
	case result:
		*left -= len(v.Text) + len(v.Tool) + itemWeight
		return *left >= 0 && lighten(left, v.Input)
	case []any:
		for _, item := range v {
			if *left -= itemWeight; *left < 0 || !lighten(left, item) {
				return false
			}
		}
	case map[string]any:
		for key, item := range v {
			if *left -= itemWeight + len(key); *left < 0 || !lighten(left, item) {
				return false
			}
		}
	}
	return *left >= 0
}

// bearable returns an error for a list that is too heavy. All lists and records that templates
// create pass through it, so none can grow without bound.
func bearable(l []any) ([]any, error) {
	_, err := weigh(l)
	return l, err
}

func bearableOr(l []any, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	return bearable(l)
}

func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict needs a value for each key")
	}
	record := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		key, err := text(pairs[i])
		if err != nil {
			return nil, err
		}
		record[key] = pairs[i+1]
	}
	_, err := weigh(record)
	return record, err
}

// numbers returns the numbers from 1 to n.
func numbers(n int) ([]any, error) {
	if n < 0 || n > maxText/itemWeight {
		return nil, fmt.Errorf("numbers goes from 0 to %d, not %d", maxText/itemWeight, n)
	}
	all := make([]any, n)
	for i := range all {
		all[i] = i + 1
	}
	return all, nil
}

func first(n int, v any) ([]any, error) {
	l, err := list(v)
	return l[:min(max(n, 0), len(l))], err
}

// field returns the item or, with a key, that field of it.
func field(key string, item any) (any, error) {
	if key == "" {
		return item, nil
	}
	record := fieldsOf(item)
	if record == nil {
		return nil, fmt.Errorf("expected a record with %q, got %s", key, describe(item))
	}
	value, ok := record[key]
	if !ok {
		return nil, fmt.Errorf("%s has no %q", describe(item), key)
	}
	return value, nil
}

// fieldsOf returns the fields of a record or of a result; nil if v is neither.
func fieldsOf(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case result:
		return map[string]any{"Tool": v.Tool, "Input": v.Input, "Text": v.Text, "IsError": v.IsError}
	}
	return nil
}

// keyAndList splits the arguments [KEY] LIST.
func keyAndList(args []any) (string, []any, error) {
	if len(args) < 1 || len(args) > 2 {
		return "", nil, errors.New("expected a list, or a key and a list")
	}
	l, err := list(args[len(args)-1])
	if err != nil || len(args) == 1 {
		return "", l, err
	}
	key, err := text(args[0])
	return key, l, err
}

// sortBy sorts in ascending order: by number if all values are numbers, otherwise by text.
func sortBy(args ...any) ([]any, error) {
	key, l, err := keyAndList(args)
	if err != nil {
		return nil, err
	}
	type entry struct {
		item   any
		text   string
		number int
	}
	entries, numeric := make([]entry, len(l)), true
	for i, item := range l {
		value, err := field(key, item)
		if err != nil {
			return nil, err
		}
		e := entry{item: item}
		if e.text, err = text(value); err != nil {
			return nil, err
		}
		if e.number, err = number(value); err != nil {
			numeric = false
		}
		entries[i] = e
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		if numeric {
			return cmp.Compare(a.number, b.number)
		}
		return strings.Compare(a.text, b.text)
	})
	sorted := make([]any, len(l))
	for i := range entries {
		sorted[i] = entries[i].item
	}
	return sorted, nil
}

// top returns the n largest items, in descending order. Equal items keep their order.
func top(n int, args ...any) ([]any, error) {
	key, l, err := keyAndList(args)
	if err != nil {
		return nil, err
	}
	backwards := slices.Clone(l)
	slices.Reverse(backwards)
	sorted, err := sortBy(key, backwards)
	if err != nil {
		return nil, err
	}
	slices.Reverse(sorted)
	return first(n, sorted)
}

func sum(args ...any) (int, error) {
	key, l, err := keyAndList(args)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, item := range l {
		value, err := field(key, item)
		if err != nil {
			return 0, err
		}
		n, err := number(value)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func pluck(key string, v any) ([]any, error) {
	l, err := list(v)
	if err != nil {
		return nil, err
	}
	values := make([]any, len(l))
	for i, item := range l {
		if values[i], err = field(key, item); err != nil {
			return nil, err
		}
	}
	return bearable(values)
}

// get returns a field of a record or a result; an empty text if it is missing or null. (A template
// would write nil as "<no value>".)
func get(key string, v any) any {
	if value := fieldsOf(v)[key]; value != nil {
		return value
	}
	return ""
}

// tally counts the values of the first group of a pattern in a list of texts. It returns
// records of key and n, in the order of first appearance.
func tally(pattern string, v any) ([]any, error) {
	l, err := list(v)
	if err != nil {
		return nil, err
	}
	counts, order := map[string]int{}, []string{}
	for _, item := range l {
		key, err := find(pattern, item)
		if err != nil {
			return nil, err
		}
		if key == "" {
			continue
		}
		if counts[key] == 0 {
			order = append(order, key)
		}
		counts[key]++
	}
	all := make([]any, len(order))
	for i, key := range order {
		all[i] = map[string]any{"key": key, "n": counts[key]}
	}
	return bearable(all)
}

// filter takes [KEY] PATTERN LIST and returns the items that match, or those that do not.
func filter(matching bool, args []any) ([]any, error) {
	if len(args) < 2 || len(args) > 3 {
		return nil, errors.New("expected a pattern and a list, or a key, a pattern and a list")
	}
	pattern, err := text(args[len(args)-2])
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	key, l, err := keyAndList(slices.Delete(slices.Clone(args), len(args)-2, len(args)-1))
	if err != nil {
		return nil, err
	}
	some := []any{}
	for _, item := range l {
		value, err := field(key, item)
		if err != nil {
			return nil, err
		}
		s, err := text(value)
		if err != nil {
			return nil, err
		}
		if re.MatchString(s) == matching {
			some = append(some, item)
		}
	}
	return some, nil
}

func ifEmpty(v, fallback any) any {
	if isTrue(v) {
		return v
	}
	return fallback
}

func arithmetic(a, b any, of func(x, y int) (int, error)) (int, error) {
	x, err := number(a)
	if err != nil {
		return 0, err
	}
	y, err := number(b)
	if err != nil {
		return 0, err
	}
	return of(x, y)
}

func multiply(x, y int) (int, error) {
	if x != 0 && (x*y/x != y || (x == -1 && y == math.MinInt)) {
		return 0, errors.New("the product is too large")
	}
	return x * y, nil
}

func divide(x, y int) (int, error) {
	if y == 0 {
		return 0, errors.New("division by zero")
	}
	return x / y, nil
}
