// Package auth authenticates callers, and authenticates us to servers.
//
// A caller is identified only by a bearer token, which has a tenant and a role. TLS, optionally
// mutual, protects the connection and does not identify tenants. A file has the hashes of the
// tokens, see [Tokens]. That file, certificates, keys and a client's own token are read again
// when they change, so all of them can be replaced without a restart.
package auth
