// Package own has the payloads of softrdma's own packets, whose opcodes are of the manufacturers'
// range: selective acknowledges, and the reasons of NAKs. A softrdma end sends them only to
// another one.
package own
