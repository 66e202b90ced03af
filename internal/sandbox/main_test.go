package sandbox

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Init()
	if len(os.Args) > 2 && os.Args[1] == probeMarker {
		os.Exit(runProbe(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}
