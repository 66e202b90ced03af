package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/coppice-run/coppice/bench/process"
)

// Heap returns the size of the orchestrator's live Go objects, in bytes. It requires
// Options.Profile.
func (i *Installation) Heap(ctx context.Context) (int64, error) {
	const line = "# HeapAlloc = "
	page, err := i.FetchProfile(ctx, i.orchestrator, "heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(page), line)
	if !found {
		return 0, errors.New("reading a profile: it does not say how large the heap is")
	}
	n, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseInt(n, 10, 64)
}

// FetchProfile fetches a page under /debug/pprof/ from one of our processes.
func (i *Installation) FetchProfile(ctx context.Context, p *process.Process, page string) ([]byte, error) {
	address, ok := i.profiles[p.Name]
	if !ok {
		return nil, fmt.Errorf("fetching a profile: %s serves none", p.Name)
	}
	if err := p.Await(ctx, func(ctx context.Context) error { return process.Listens(ctx, address) }); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/"+page, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching a profile: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching a profile: %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}
