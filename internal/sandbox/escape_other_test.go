//go:build !amd64

package sandbox

var callsHere map[string]kernelCall
