// Package chaos tests that each run has exactly one result, whatever process dies meanwhile.
//
// A campaign starts a whole installation as separate processes, with a [Link] in each
// connection between them. It loads the installation with small trees and injects faults on a
// schedule that follows from a seed. A safety campaign injects many faults and requires only
// that nothing false was ever acknowledged. A liveness campaign injects a bounded number of
// faults and requires that everything ends. The two are never mixed.
//
// Acknowledgements are recorded outside of the database. A [Witness] in each worker records
// every answer that the worker receives, every model call and every effect of a tool. The
// clients record what they were answered. A [Log] survives the process that writes it. Evidence
// in the database would be lost together with a lost commit.
//
// [Check] compares the state of a session, which a [Collector] reads over the API, with these
// records. It is pure, and has tests of its own: they damage sound evidence from a real run in
// more than seventy ways, and Check must name each of them.
//
// The campaign has the build tag chaos (make chaos). The other tests run with all others.
package chaos
