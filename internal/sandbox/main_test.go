package sandbox

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// made says that workerBinary was.
var made atomic.Bool

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == probeMarker {
		os.Exit(runProbe(os.Args[2], os.Args[3:]))
	}
	code := m.Run()
	if made.Load() {
		if binary, err := workerBinary(); err == nil {
			os.RemoveAll(filepath.Dir(binary))
		}
	}
	os.Exit(code)
}
