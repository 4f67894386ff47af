package main

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv/chromium"
)

// The page of the console runs in a browser and shows a program with its device.
func TestConsoleInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Chromium")
	}
	b := chromium.NewTab(t)
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
	address := clitest.ServerAddress(t)
	clitest.Start(t, "perf", "write", "bw", "--keep", "-d", address, "-p", clitest.FreePort(t)).Prints("waiting")
	c := clitest.Start(t, "console")
	c.Prints("#token=")
	b.Open(strings.TrimSpace(c.Stdout.String()) + "/objects/devices")
	b.Shows("Devices", address, "RoCE v2", "1 device")
}
