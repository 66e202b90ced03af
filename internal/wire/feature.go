package wire

import "slices"

// Protocol is the highest version of the worker protocol spoken here, and
// OldestProtocol the lowest.
const (
	Protocol       = 1
	OldestProtocol = 1
)

// What a side of a worker's stream can do beyond the protocol version.
const (
	FeatureReattach   = "reattach"   // both: an attempt may go on over another stream
	FeatureHeartbeat  = "heartbeat"  // both: it says again and again that it is there
	FeaturePolicy     = "policy"     // both: calls are judged before the worker runs them
	FeatureCommands   = "commands"   // both: commands may go on in the background, as tasks
	FeatureWorkspaces = "workspaces" // both: there may be more than one
	FeatureJoined     = "joined"     // both: it takes several messages in one
	FeatureGiven      = "given"      // the worker: it asks for a run that it was given and has not heard of
	FeatureStandby    = "standby"    // the replica: a slot may stand by that has had no run before
)

// Features are what one side has said that it can do.
type Features []string

// Has reports whether that was among it.
func (f Features) Has(feature string) bool { return slices.Contains(f, feature) }

// WorkerFeatures are those of a worker of this release.
func WorkerFeatures() Features {
	return Features{FeatureReattach, FeatureHeartbeat, FeaturePolicy, FeatureCommands, FeatureWorkspaces, FeatureGiven, FeatureJoined}
}

// ReplicaFeatures are those of a replica of this release.
func ReplicaFeatures() Features {
	return Features{FeatureReattach, FeatureHeartbeat, FeaturePolicy, FeatureCommands, FeatureWorkspaces, FeatureJoined, FeatureStandby}
}
