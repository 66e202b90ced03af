package scripted

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

// functions returns all template functions. docs/scenarios.md documents them. The functions of
// the view are here only as names; they are bound to the request when a template runs. The
// value that a function works on is its last argument, so that calls can be chained with |.
func functions() template.FuncMap {
	all := textFunctions()
	maps.Copy(all, listFunctions())
	maps.Copy(all, (*view)(nil).functions())
	return all
}

func textFunctions() template.FuncMap {
	return template.FuncMap{
		"lines":    onText(func(s string) any { return texts(nonEmpty(strings.Split(s, "\n"))) }),
		"fields":   onText(func(s string) any { return texts(strings.Fields(s)) }),
		"trim":     onText(func(s string) any { return strings.TrimSpace(s) }),
		"base":     onText(func(s string) any { return path.Base(s) }),
		"dir":      onText(func(s string) any { return path.Dir(s) }),
		"entries":  onText(func(s string) any { return texts(entries(s)) }),
		"dirs":     onText(func(s string) any { return texts(dirs(s)) }),
		"files":    onText(func(s string) any { return texts(files(s)) }),
		"isCut":    onText(func(s string) any { return isCut(s) }),
		"isJSON":   onText(func(s string) any { return json.Valid([]byte(s)) }),
		"lower":    growing(strings.ToLower),
		"upper":    growing(strings.ToUpper),
		"quoteRE":  growing(regexp.QuoteMeta),
		"html":     growing(template.HTMLEscapeString),
		"js":       growing(template.JSEscapeString),
		"urlquery": growing(func(s string) string { return template.URLQueryEscaper(s) }),
		"json":     decode,
		"toJSON":   encode,
		"split":    split,
		"join":     join,
		"replace":  replace,
		"trimPrefix": func(prefix string, v any) (string, error) {
			s, err := text(v)
			return strings.TrimPrefix(s, prefix), err
		},
		"trimSuffix": func(suffix string, v any) (string, error) {
			s, err := text(v)
			return strings.TrimSuffix(s, suffix), err
		},
		"contains": func(part string, v any) (bool, error) { s, err := text(v); return strings.Contains(s, part), err },
		"shorten":  func(n int, v any) (string, error) { s, err := text(v); return shorten(s, n), err },
		"match":    match,
		"find":     find,
		"records":  records,
		"vary":     vary,
		"print":    func(args ...any) (string, error) { return bounded(fmt.Sprint(args...)) },
		"println":  func(args ...any) (string, error) { return bounded(fmt.Sprintln(args...)) },
		"printf":   printf,
	}
}

// text returns the text of a value, if it has one.
func text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case result:
		return v.Text, nil
	case nil:
		return "", nil
	case bool, int, int64, float64:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("expected text, got %s", describe(v))
}

// isTrue reports whether a value is not false, 0 or empty. A result stands for its text.
func isTrue(v any) bool {
	if r, ok := v.(result); ok {
		return r.Text != ""
	}
	truth, _ := template.IsTrue(v)
	return truth
}

// describe says in an error what a value is.
func describe(v any) string {
	switch v := v.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "a record"
	case result:
		return "a result"
	case string:
		return "a string"
	case nil:
		return "nothing"
	case bool, int, int64, float64:
		return fmt.Sprint(v)
	}
	return "something else"
}

func onText(f func(string) any) func(any) (any, error) {
	return func(v any) (any, error) {
		s, err := text(v)
		if err != nil {
			return nil, err
		}
		return f(s), nil
	}
}

// growing wraps a function whose result may be longer than its input.
func growing(f func(string) string) func(any) (string, error) {
	return func(v any) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		return bounded(f(s))
	}
}

func bounded(s string) (string, error) {
	if len(s) > maxText {
		return "", errTooLong
	}
	return s, nil
}

func texts(s []string) []any {
	list := make([]any, len(s))
	for i := range s {
		list[i] = s[i]
	}
	return list
}

func nonEmpty(lines []string) []string {
	var some []string
	for _, l := range lines {
		if l = strings.TrimSuffix(l, "\r"); l != "" {
			some = append(some, l)
		}
	}
	return some
}

// Lines in the output of file tools that are not entries. cutMark starts the last line of
// truncated output.
const (
	cutMark  = "[cut:"
	skipMark = "[skipped:"
	noFiles  = "No files found"
	noMatch  = "No matches found"
	emptyDir = "The directory is empty"
)

// entries returns the lines of a listing by ls, glob or grep, without the lines that say that
// nothing was found or something was left out.
func entries(s string) []string {
	return slices.DeleteFunc(nonEmpty(strings.Split(s, "\n")), func(l string) bool {
		return l == noFiles || l == noMatch || l == emptyDir ||
			strings.HasPrefix(l, cutMark) || strings.HasPrefix(l, skipMark)
	})
}

func dirs(s string) []string {
	var some []string
	for _, e := range entries(s) {
		if name, ok := strings.CutSuffix(e, "/"); ok {
			some = append(some, name)
		}
	}
	return some
}

func files(s string) []string {
	var some []string
	for _, e := range entries(s) {
		if !strings.HasSuffix(e, "/") {
			some = append(some, e)
		}
	}
	return some
}

// isCut reports whether a listing is incomplete.
func isCut(s string) bool {
	return slices.ContainsFunc(nonEmpty(strings.Split(s, "\n")), func(l string) bool {
		return strings.HasPrefix(l, cutMark) || strings.HasPrefix(l, skipMark)
	})
}

func decode(v any) (any, error) {
	s, err := text(v)
	if err != nil {
		return nil, err
	}
	var decoded any
	if err := json.Unmarshal([]byte(s), &decoded); err != nil {
		return nil, fmt.Errorf("expected JSON, got %q: %w", shorten(s, 80), err)
	}
	return decoded, nil
}

func encode(v any) (string, error) {
	if r, ok := v.(result); ok {
		v = r.Text
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return bounded(string(encoded))
}

func split(sep string, v any) ([]any, error) {
	s, err := text(v)
	if err != nil {
		return nil, err
	}
	return bearable(texts(strings.Split(s, sep)))
}

func join(sep string, v any) (string, error) {
	items, err := list(v)
	if err != nil {
		return "", err
	}
	parts, size := make([]string, len(items)), 0
	for i, item := range items {
		if parts[i], err = text(item); err != nil {
			return "", err
		}
		if size += len(parts[i]) + len(sep); size > maxText+len(sep) {
			return "", errTooLong
		}
	}
	return strings.Join(parts, sep), nil
}

func replace(old, with string, v any) (string, error) {
	s, err := text(v)
	if err != nil {
		return "", err
	}
	if len(s)+strings.Count(s, old)*len(with) > maxText {
		return "", errTooLong
	}
	return strings.ReplaceAll(s, old, with), nil
}

// shorten truncates s to n characters. The last one marks the truncation.
func shorten(s string, n int) string {
	if n < 1 {
		return ""
	}
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func match(pattern string, v any) (bool, error) {
	re, s, err := patternAndText(pattern, v)
	return err == nil && re.MatchString(s), err
}

// find returns the first group of the first match. It is the whole match if the pattern has no
// group, and empty if nothing matches.
func find(pattern string, v any) (string, error) {
	re, s, err := patternAndText(pattern, v)
	if err != nil {
		return "", err
	}
	found := re.FindStringSubmatch(s)
	if found == nil {
		return "", nil
	}
	return found[min(1, len(found)-1)], nil
}

// records returns, for each match in v, a record of its named groups.
func records(pattern string, v any) ([]any, error) {
	re, s, err := patternAndText(pattern, v)
	if err != nil {
		return nil, err
	}
	names := re.SubexpNames()
	all := []any{}
	for _, found := range re.FindAllStringSubmatch(s, maxText/len(names)) {
		record := map[string]any{}
		for i, name := range names {
			if name != "" {
				record[name] = found[i]
			}
		}
		all = append(all, record)
	}
	return bearable(all)
}

func patternAndText(pattern string, v any) (*regexp.Regexp, string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, "", err
	}
	s, err := text(v)
	return re, s, err
}

// vary returns a number from low to high that depends only on v.
func vary(low, high int, v any) (int, error) {
	s, err := text(v)
	if err != nil {
		return 0, err
	}
	if high < low || low < 0 || high > maxNumber {
		return 0, fmt.Errorf("expected two numbers from 0 to %d, the lower one first, got %d and %d", maxNumber, low, high)
	}
	sum := fnv.New64a()
	sum.Write([]byte(s))
	return low + int(sum.Sum64()>>1)%(high-low+1), nil
}

// excessivePadding matches widths and precisions that a format must not have.
var excessivePadding = regexp.MustCompile(`%[^a-zA-Z%]*(\*|[0-9]{4})`)

func printf(format string, args ...any) (string, error) {
	heaviest := 0
	for _, a := range args {
		weight, err := weigh(a)
		if err != nil {
			return "", err
		}
		heaviest = max(heaviest, weight)
	}
	// Each verb can print any argument, with a width of three digits.
	if excessivePadding.MatchString(format) || strings.Count(format, "%")*(heaviest+1000) > 16*maxText {
		return "", errTooLong
	}
	return bounded(fmt.Sprintf(format, args...))
}
