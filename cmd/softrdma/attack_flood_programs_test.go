//go:build interop && linux

package main

import "testing"

// TestAttackFloodOfRequestsAtAProgram is
// TestAttackFloodOfRequestsLeavesRoomForClients for librdmacm's rping, whose
// connection manager is that of softrdma exec.
func TestAttackFloodOfRequestsAtAProgram(t *testing.T) {
	needPrograms(t, "rping")
	s := floodServer{start: func(t *testing.T, addr, port string) []*process {
		return []*process{start(t, "exec", "-d", addr, "--", "rping", "-s", "-P", "-a", addr, "-p", port)}
	}, dial: dialRdmacm}
	s.flood(t)
}
