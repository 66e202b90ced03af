package sandbox

import "time"

// Limits bound the resources of one command. 0 means the default.
type Limits struct {
	AddressSpace uint64        // bytes mapped by one process, used or not
	Memory       uint64        // bytes of private writable memory of one process
	Processes    uint64        // processes and threads of the command; enforced only with namespaces
	OpenFiles    uint64        // per process
	FileBytes    uint64        // maximum size of a file
	CPU          time.Duration // per process
	Scratch      uint64        // bytes of /tmp and of /dev/shm, each; enforced only with namespaces
}

// The defaults.
const (
	// DefaultAddressSpace leaves room for runtimes that reserve far more than they use. A
	// WebAssembly module alone reserves 10 GiB.
	DefaultAddressSpace = 64 << 30
	DefaultMemory       = 4 << 30
	DefaultProcesses    = 1024
	DefaultOpenFiles    = 4096
	DefaultFileBytes    = 4 << 30
	DefaultCPU          = time.Hour
	DefaultScratch      = 512 << 20
)

func (l Limits) filled() Limits {
	fill := func(v *uint64, def uint64) {
		if *v == 0 {
			*v = def
		}
	}
	fill(&l.AddressSpace, DefaultAddressSpace)
	fill(&l.Memory, DefaultMemory)
	fill(&l.Processes, DefaultProcesses)
	fill(&l.OpenFiles, DefaultOpenFiles)
	fill(&l.FileBytes, DefaultFileBytes)
	fill(&l.Scratch, DefaultScratch)
	if l.CPU == 0 {
		l.CPU = DefaultCPU
	}
	return l
}
