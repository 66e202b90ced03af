package api

// Keepalive returns the options of a server's connections.
var Keepalive = connectionOptions
