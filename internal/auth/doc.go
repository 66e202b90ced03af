// Package auth says who calls, and proves to others who we are.
//
// A caller is known by a bearer token, and by nothing else: the token names a
// tenant and a role. TLS, in both directions if asked for, protects the connection
// and says nothing about tenants. Tokens are kept as hashes in a file, see
// [Tokens]; that file, certificates, keys and a client's own token are read again
// when they change, so all of them can be replaced while everything runs.
package auth
