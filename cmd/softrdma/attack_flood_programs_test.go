//go:build interop && linux

package main

import (
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// TestAttackFloodOfRequestsAtAProgram floods librdmacm's rping under softrdma exec, as
// TestAttackFloodOfRequestsLeavesRoomForClients does softrdma's listeners.
func TestAttackFloodOfRequestsAtAProgram(t *testing.T) {
	clitest.NeedPrograms(t, "rping")
	s := floodServer{start: func(t *testing.T, addr, port string) []*clitest.Process {
		return []*clitest.Process{clitest.Start(t, "exec", "-d", addr, "--", "rping", "-s", "-P", "-a", addr, "-p", port)}
	}, dial: dialRdmacm}
	s.flood(t)
}
