package transcript_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/transcript"
)

// TestAMissingLineIsNoted: what comes before a line that a file lacks is left out, which is said.
func TestAMissingLineIsNoted(t *testing.T) {
	t.Parallel()
	whole := []string{
		`{"uuid":"a","type":"user","message":{"role":"user","content":"one"}}`,
		`{"uuid":"b","parentUuid":"a","type":"assistant","message":{"role":"assistant","content":"two"}}`,
		`{"uuid":"c","parentUuid":"b","type":"system"}`,
		`{"uuid":"d","parentUuid":"c","type":"user","message":{"role":"user","content":"three"}}`,
	}
	for missing := range whole {
		h, err := transcript.Decode([]byte(strings.Join(slices.Delete(slices.Clone(whole), missing, missing+1), "\n")))
		if err != nil {
			t.Fatal(err)
		}
		noted := slices.ContainsFunc(h.Notes, func(note string) bool { return strings.Contains(note, "lacks the line before") })
		if last := missing == len(whole)-1; noted == last {
			t.Errorf("without line %d the notes are %q", missing+1, h.Notes)
		}
	}
}
