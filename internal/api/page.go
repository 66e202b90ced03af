package api

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// pageBytes is how much the rows of one answer have together, unless it is a single one:
// clients of gRPC take 4 MiB if nobody has told them otherwise.
const pageBytes = 3 << 20

// pageSize gives the size of a page within its bounds.
func pageSize(asked int32, standard, most int) (int, error) {
	switch {
	case asked < 0:
		return 0, tree.ErrBadInput.With("page_size is negative")
	case asked == 0:
		return standard, nil
	}
	return min(int(asked), most), nil
}

// pageRows shows as much of a page as has room in one answer, with the token of what follows. A row
// of which nil is shown is left out.
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
