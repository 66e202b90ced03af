package api

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// pageBytes bounds the rows of one response, unless there is a single one. Clients of gRPC accept 4
// MiB by default.
const pageBytes = 3 << 20

// pageSize returns the size of a page, with default and maximum applied.
func pageSize(asked int32, standard, most int) (int, error) {
	switch {
	case asked < 0:
		return 0, tree.ErrBadInput.With("page_size is negative")
	case asked == 0:
		return standard, nil
	}
	return min(int(asked), most), nil
}

// pageRows converts as many rows of a page as fit into one response, and returns the token of the
// next page. A row that converts to nil is left out.
func pageRows[T any, M any, Shown interface {
	*M
	proto.Message
}](page orchestrator.Page[T], show func(*T) (Shown, error)) (all []Shown, next string, err error) {
	left := pageBytes
	for i := range page.Rows {
		shown, err := show(&page.Rows[i])
		if err != nil {
			return nil, "", err
		}
		if shown == nil {
			continue
		}
		if left -= proto.Size(shown); left < 0 && len(all) > 0 {
			return all, page.After(i - 1), nil
		}
		all = append(all, shown)
	}
	return all, page.Next, nil
}
