//go:build interop && linux

package main

import (
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// TestAttackFloodOfRequestsAtAProgram floods librdmacm's rping under softrdma exec and on a
// daemon's device, as TestAttackFloodOfRequestsLeavesRoomForClients does softrdma's listeners.
func TestAttackFloodOfRequestsAtAProgram(t *testing.T) {
	clitest.NeedPrograms(t, "rping")
	for name, start := range map[string]func(t *testing.T, addr, port string) []*clitest.Process{
		"exec": func(t *testing.T, addr, port string) []*clitest.Process {
			return []*clitest.Process{clitest.Start(t, "exec", "-d", addr, "--", "rping", "-s", "-P", "-a", addr, "-p", port)}
		},
		"daemon": func(t *testing.T, addr, port string) []*clitest.Process {
			d, socket := clitest.StartDaemon(t, "-d", addr)
			return []*clitest.Process{d, clitest.Start(t, "exec", "--socket", socket, "--engine", "daemon", "--", "rping", "-s", "-P", "-a", addr, "-p", port)}
		},
	} {
		s := floodServer{start: start, dial: dialRdmacm}
		t.Run(name, s.flood)
	}
}
