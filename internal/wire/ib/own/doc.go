// Package own has the payloads of softrdma's own packets, whose opcodes are of the manufacturers'
// range: selective acknowledges, the reasons of NAKs, probes of the path, and telemetry of switches. A softrdma end
// sends them only to another one.
package own
