package store

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// source is text as agents read it.
func source(t testing.TB, bytes int) []byte {
	t.Helper()
	text, err := os.ReadFile("postgres.go")
	if err != nil {
		t.Fatal(err)
	}
	for len(text) < bytes {
		text = append(text, text...)
	}
	return text[:bytes]
}

// noise can't be packed to less.
func noise(bytes int) []byte {
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // it is to be the same each time
	data := make([]byte, bytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func TestPack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data []byte
		most int // bytes when it is packed; 0: it stays as it is
	}{
		"nothing":         {nil, 0},
		"small":           {source(t, packFrom-1), 0},
		"just large":      {source(t, packFrom), packFrom * 3 / 4},
		"source":          {source(t, 5<<10), 5 << 10 / 2},
		"base64":          {[]byte(base64.StdEncoding.EncodeToString(noise(6 << 10))), 6<<10 + 100},
		"random":          {noise(5 << 10), 0},
		"the same":        {make([]byte, maxPacked), 16 << 10},
		"more than large": {make([]byte, maxPacked+1), 0},
	} {
		packed := pack(c.data, 7)
		switch {
		case c.most == 0:
			if packed != nil {
				t.Errorf("%s: it is packed into %d bytes", name, len(packed))
			}
			continue
		case len(packed) == 0 || len(packed) > c.most || packed[0] != 7:
			t.Errorf("%s: %d bytes are packed into %d, want no more than %d after a prefix", name, len(c.data), len(packed), c.most)
			continue
		}
		if again, err := unpack(packed[1:]); err != nil || !bytes.Equal(again, c.data) {
			t.Errorf("%s: it comes back as %d bytes, %v", name, len(again), err)
		}
	}
}

// TestPieces: what is in chunks fills them, but for the last one of what is nearly as long, and
// comes back.
func TestPieces(t *testing.T) {
	t.Parallel()
	for packed, inText := range map[int]int{
		1000: 0, toastChunk: 0, toastChunk + 1: 1, toastChunk + maxInlineBytes: maxInlineBytes, toastChunk + maxInlineBytes + 1: 0,
		2 * toastChunk: 0, 5*toastChunk + 300: 300,
	} {
		l := layout{chunk: toastChunk}
		text, rest := l.splitPacked(make([]byte, packed))
		first, _ := text.([]byte)
		if len(first) != inText || len(first)+len(rest) != packed || inText == 0 && text != packedText {
			t.Errorf("%d bytes are in pieces of %d and %d", packed, len(first), len(rest))
		}
	}
	was := base64.StdEncoding.EncodeToString(noise(4000))
	row := []any{&was, packedColumn{&was}}
	(&layout{chunk: toastChunk}).packTexts([][]any{row})
	first, cut := row[0].([]byte)
	if text := string(first); !cut || (packedColumn{&text}).Scan(row[1]) != nil || text != was {
		t.Errorf("from pieces of %d and %d bytes comes %.50q", len(first), len(row[1].([]byte)), text)
	}
}

// TestUnpackDamaged: what somebody has damaged is an error, and takes no memory that
// nothing packed would.
func TestUnpackDamaged(t *testing.T) {
	t.Parallel()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	half := encoder.EncodeAll(make([]byte, maxPacked/2+1), nil)
	cut := pack(source(t, 5<<10))
	flipped := bytes.Clone(cut)
	flipped[len(flipped)/2] ^= 0x55
	for name, packed := range map[string][]byte{
		"a frame of too much":         encoder.EncodeAll(make([]byte, maxPacked+1), nil),
		"frames that are too much":    append(bytes.Clone(half), half...),
		"a cut one":                   cut[:len(cut)-9],
		"one with a bit that flipped": flipped,
		"none":                        []byte("(packed)"),
	} {
		if data, err := unpack(packed); err == nil {
			t.Errorf("%s: it is %d bytes", name, len(data))
		}
		text := packedText
		if err := (packedColumn{&text}).Scan(packed); err == nil {
			t.Errorf("%s: as a text it is %q", name, text)
		}
		var body []byte
		if err := (bodyColumn{&body}).Scan(append([]byte{packedBody}, packed...)); err == nil {
			t.Errorf("%s: as a body it is %q", name, body)
		}
	}
}

// FuzzPacked: what is in a column comes to bounded bytes or an error, and what is
// packed comes back.
func FuzzPacked(f *testing.F) {
	f.Add([]byte{packedBody})
	f.Add(source(f, 5<<10))
	f.Add(pack(source(f, 5<<10), packedBody))
	f.Add(wire.EncodeBody(&tree.Message{Blocks: []tree.Block{tree.Text{Text: strings.Repeat("a word, ", 1000)}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var body []byte
		if err := (bodyColumn{&body}).Scan(data); err == nil && len(body) > max(maxPacked, len(data)) {
			t.Errorf("%d bytes are a body of %d", len(data), len(body))
		}
		if packed := pack(data); packed != nil {
			if again, err := unpack(packed); err != nil || !bytes.Equal(again, data) {
				t.Errorf("%q comes back as %q, %v", data, again, err)
			}
		}
	})
}

// BenchmarkPack is a result on its way into its row, and out of it.
func BenchmarkPack(b *testing.B) {
	for _, size := range []int{100, packFrom, 5 << 10, 30_000} {
		for name, data := range map[string][]byte{"source": source(b, size), "noise": noise(size)} {
			b.Run(fmt.Sprintf("%s/%d/in", name, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					pack(data)
				}
			})
			packed := pack(data)
			if packed == nil {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d/out", name, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := unpack(packed); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
