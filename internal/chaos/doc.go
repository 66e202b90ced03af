// Package chaos shows by figures that each run has exactly one result, whatever
// dies meanwhile.
//
// A campaign starts a whole installation as processes, with a [Link] of ours in
// every connection between them, loads it with small trees, and breaks things on
// a schedule that follows from a seed. A safety campaign breaks much and asks
// only that nothing untrue was ever said; a liveness campaign breaks a bounded
// number of things and asks that everything ends. The two are never mixed.
//
// What was acknowledged is written down outside of the database: a [Witness] in
// each worker records every answer that the worker sees, every model call that
// it makes and every effect of a tool, and the clients record what they were
// told; a [Log] survives the process that writes it. A database that loses a
// commit would lose the evidence of it too.
//
// [Check] holds what the system says of a session, collected over the API by
// [Collect], against these records. It is pure, and is itself tested: sound
// evidence from a real run is damaged in about twenty ways, each of which it has
// to name.
//
// The campaign has the build tag chaos (make chaos); the rest is tested with
// everything else.
package chaos
