package wire

import "slices"

// Protocol and OldestProtocol are the highest and the lowest supported version of the worker
// protocol.
const (
	Protocol       = 1
	OldestProtocol = 1
)

// Optional features of the two sides of a worker's stream.
const (
	FeatureReattach   = "reattach"   // both: an attempt may continue over another stream
	FeatureHeartbeat  = "heartbeat"  // both: sends heartbeats
	FeaturePolicy     = "policy"     // both: permissions are checked before a worker runs a call
	FeatureCommands   = "commands"   // both: commands may continue in the background, as tasks
	FeatureWorkspaces = "workspaces" // both: supports several workspaces
	FeatureJoined     = "joined"     // both: accepts several messages in one
	FeatureGiven      = "given"      // the worker: asks for a run that it was given without hearing of it
	FeatureStandby    = "standby"    // the replica: a slot may stand by before its first run
)

// Features are the features that one side has announced.
type Features []string

// Has reports whether a feature was announced.
func (f Features) Has(feature string) bool { return slices.Contains(f, feature) }

// WorkerFeatures returns the features of a worker of this release.
func WorkerFeatures() Features {
	return Features{FeatureReattach, FeatureHeartbeat, FeaturePolicy, FeatureCommands, FeatureWorkspaces, FeatureGiven, FeatureJoined}
}

// ReplicaFeatures returns the features of a replica of this release.
func ReplicaFeatures() Features {
	return Features{FeatureReattach, FeatureHeartbeat, FeaturePolicy, FeatureCommands, FeatureWorkspaces, FeatureJoined, FeatureStandby}
}
