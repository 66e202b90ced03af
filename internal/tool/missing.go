package tool

// Missing is tools that a run may use and that are not available now.
type Missing struct {
	Entry string // matches them, see policy.EntryMatches
	Why   string
}
