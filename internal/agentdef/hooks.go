package agentdef

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-run/coppice/internal/hook"
)

// hooks returns the hooks of the agent.
func (f *frontMatter) hooks(key string) []hook.Spec {
	node := f.fields.Value(key)
	if node == nil || f.err != nil {
		return nil
	}
	specs, err := hook.ParseList(f.source, node)
	if err != nil {
		f.err = err
	} else if len(specs) == 0 {
		f.fail(key, "expected at least one hook; omit the key if there are none")
	}
	return specs
}

func checkCallback(s string) string {
	if err := CheckCallback(s); err != nil {
		return err.Error()
	}
	return ""
}

// CheckCallback rejects URLs that cannot be called.
func CheckCallback(url string) error {
	if !hook.ValidURL(url) {
		return errors.New("expected a URL such as https://hooks.example.com/ended, without a user")
	}
	return nil
}

// putHooks writes hooks on one line.
func putHooks(b *strings.Builder, hooks []hook.Spec) {
	if len(hooks) == 0 {
		return
	}
	items := make([]string, len(hooks))
	for i, h := range hooks {
		fields := []string{"name: " + strconv.Quote(h.Name), "event: " + strconv.Quote(h.Event.String())}
		if h.URL != "" {
			fields = append(fields, "url: "+strconv.Quote(h.URL))
		}
		if len(h.Command) > 0 {
			words := make([]string, len(h.Command))
			for i, w := range h.Command {
				words[i] = strconv.Quote(w)
			}
			fields = append(fields, "command: ["+strings.Join(words, ", ")+"]")
		}
		if h.Timeout > 0 {
			fields = append(fields, "timeout: "+strconv.Quote(h.Timeout.String()))
		}
		items[i] = "{" + strings.Join(fields, ", ") + "}"
	}
	fmt.Fprintf(b, "hooks: [%s]\n", strings.Join(items, ", "))
}
