package tool

// Missing is tools that a run might use and that are not there now.
type Missing struct {
	Entry string // what names them, as of policy.Names
	Why   string
}
