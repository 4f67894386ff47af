//go:build interop && linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv/chromium"
)

// TestProgramConsoleInChromium opens the views of the console while programs have traffic.
func TestProgramConsoleInChromium(t *testing.T) {
	b := chromium.NewTab(t)
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	c := clitest.Start(t, "console")
	c.Prints("#token=")
	url := strings.TrimSpace(c.Stdout.String())
	shows := func(view string, words ...string) {
		t.Helper()
		b.Open(url + "/" + view)
		b.Shows(words...)
	}
	shows("map", "No program has a device", "softrdma perf write bw")
	shows("fabric", "No fabric runs", "softrdma fabric up")

	server, client, port := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t), clitest.FreePort(t)
	clitest.Start(t, "perf", "write", "bw", "--keep", "-d", server, "-p", port).Prints("waiting")
	clitest.Start(t, "perf", "write", "bw", "-d", client, "-p", port, "-D", "600", "-q", "2", "127.0.0.1").Prints("2 queue pairs")
	shows("map", "softrdma perf", server, client, "2 QPs", "4 QPs", "B/s")
	shows("objects", "QPN", "RTS", server+":4791", "4 rows")
	shows("objects/mrs", "Regions", "Access", server)
	shows("connection", "Queue pair 0x", "Throughput", "Round trip", "Other end: 0x", "as both ends saw them", "PSN 0x")
	shows("faults", "lossy-link", "one packet in a hundred is lost", "Copy YAML", "none: switch a scenario on")

	fabric := clitest.Start(t, "fabric", "up", "--topology", "fat-tree:k=4", "--name", "console")
	fabric.Prints("48 active")
	shows("fabric", "Fabric console", "20 switches, 16 adapters, cables: 48 active", "leaf-0-0", "node-15", "Trace")

	url += "x"
	shows("map", "Open the URL that softrdma console has printed")
}
