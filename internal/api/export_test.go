package api

// Keepalive is what servers do with connections.
var Keepalive = connectionOptions
