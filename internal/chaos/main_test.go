package chaos_test

import (
	"os"
	"testing"

	"github.com/coppice-run/coppice/internal/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}
