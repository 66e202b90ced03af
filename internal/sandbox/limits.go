package sandbox

import "time"

// Limits bound what one command may use. 0 stands for the default.
type Limits struct {
	AddressSpace uint64        // bytes that one process may map, used or not
	Memory       uint64        // bytes of private memory that one process may write to
	Processes    uint64        // processes and threads of the command; held only with namespaces
	OpenFiles    uint64        // of one process
	FileBytes    uint64        // that one process may make a file long
	CPU          time.Duration // of one process
	Scratch      uint64        // bytes of /tmp and of /dev/shm, each; held only with namespaces
}

// The defaults.
const (
	// DefaultAddressSpace leaves room for runtimes that reserve far more than they
	// use: a module of WebAssembly alone takes 10 GiB.
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
