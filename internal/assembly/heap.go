package assembly

import "sync"

// How much garbage a small heap may accumulate in addition before it is collected. An idle
// orchestrator holds 7 MB. Without a ballast, that heap is collected whenever as much has been
// allocated, which is every few dozen tasks. With 16 MB instead of 8, a worker has not taken less CPU
// beyond noise.
const (
	orchestratorBallastBytes = 24 << 20
	workerBallastBytes       = 8 << 20
)

// A ballast is memory that the collector counts as live. Nobody writes to it, so it only reserves
// addresses. It makes no difference to a large heap, and GOGC and GOMEMLIMIT keep their meaning. A
// process that is both an orchestrator and a worker has both ballasts.
var (
	orchestratorBallast = sync.OnceValue(func() []byte { return make([]byte, orchestratorBallastBytes) })
	workerBallast       = sync.OnceValue(func() []byte { return make([]byte, workerBallastBytes) })
)
