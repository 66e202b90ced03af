package assembly

import "sync"

// slackBytes is how much garbage a small heap may have beside what it would have anyway
// before it is collected. An orchestrator that has little to do holds 7 MB, which without
// this is collected each time that as much has been allocated: every few dozen tasks.
const ballastBytes = 16 << 20

// slack gives memory that the collector counts as live and nobody writes to, so that it is
// only a range of addresses. What a large heap takes it adds nothing to; GOGC and
// GOMEMLIMIT mean what they always mean.
var heapBallast = sync.OnceValue(func() []byte { return make([]byte, ballastBytes) })
