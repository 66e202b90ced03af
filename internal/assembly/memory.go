package assembly

import (
	"os"
	"runtime/debug"
)

// heapGrowth is how much garbage may gather before it is collected, in percent of what
// is in use. A process here has little in use and makes much garbage: at Go's standard
// of 100 a fifth of its time went into collecting.
const heapGrowth = 300

// CollectLess makes garbage be collected less often, unless GOGC says how often.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
