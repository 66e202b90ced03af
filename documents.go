// Package coppice holds the documents that come with the program, for the agent that
// answers questions about it. The program itself is in cmd and internal.
package coppice

import "embed"

// Documents are README.md, the pages of docs, and the contract, whose comments are
// the reference of the API.
//
//go:embed README.md docs/*.md proto/coppice/v1/*.proto
var Documents embed.FS
