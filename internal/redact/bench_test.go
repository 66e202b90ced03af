package redact_test

import (
	"strings"
	"testing"
)

func BenchmarkString(b *testing.B) {
	prose := strings.Repeat("An oak is a tree or shrub in the genus Quercus of the beech family, Fagaceae.\n", 1000)
	code := strings.Repeat("\tif n, err := fmt.Fprintf(w, \"%d of %s\\n\", i&1, name); err != nil {\n\t\treturn err\n\t}\n", 1000)
	for name, text := range map[string]string{
		"prose": prose, "one line": strings.ReplaceAll(prose, "\n", " "), "code": code,
		"a secret": prose + planted["API_KEY"],
	} {
		b.Run(name, func(b *testing.B) {
			r := known(b)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.String(text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
		})
	}
	b.Run("deltas", func(b *testing.B) {
		stream := known(b).Stream()
		b.SetBytes(int64(len(prose)))
		for b.Loop() {
			for i := 0; i < len(prose); i += 20 {
				stream.Write(prose[i:min(i+20, len(prose))])
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(prose)), "ns/byte")
	})
}
