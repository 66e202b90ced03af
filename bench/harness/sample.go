package harness

// Workload is the name of a workload.
type Workload string

// The workloads.
const (
	// Cold is the time from the start of a system's process to the first result. The databases
	// are running and empty.
	Cold Workload = "cold"
	// Spawn is the latency from the spawn to the result of a new child of a running parent.
	Spawn Workload = "spawn"
	// FanOut is one parent with N concurrent children, until all results are joined.
	FanOut Workload = "fanout"
	// Memory is the memory of all processes after the fan-outs.
	Memory Workload = "memory"
	// Independent is tasks without a parent, as many as the system can take.
	Independent Workload = "independent"
)

// Workloads returns all workloads, in order.
func Workloads() []string {
	return []string{string(Cold), string(Spawn), string(FanOut), string(Memory), string(Independent)}
}

// Sample is one measurement.
type Sample struct {
	System   string   `json:"system"`
	Workload Workload `json:"workload"`
	Round    int      `json:"round"`
	N        int      `json:"n,omitempty"` // number of tasks

	Seconds   float64 `json:"seconds,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"`
	// CPUMicros is the CPU time per task of the system's process, its databases and its client,
	// in µs.
	CPUMicros float64 `json:"cpu_us_per_task,omitempty"`
	P50Millis float64 `json:"p50_ms,omitempty"`
	P99Millis float64 `json:"p99_ms,omitempty"`
	Bytes     int64   `json:"pss_bytes,omitempty"`

	// Skipped says why there is no measurement.
	Skipped string `json:"skipped,omitempty"`
}
