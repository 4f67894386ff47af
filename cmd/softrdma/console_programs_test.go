//go:build interop && linux

package main

import (
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// screenshot checks that a view looks different in light and dark, and has the window's size. With
// SOFTRDMA_SCREENSHOTS=DIRECTORY the pictures stay there.
func (b *browser) screenshot(name, view string) {
	b.t.Helper()
	dir := os.Getenv("SOFTRDMA_SCREENSHOTS")
	if dir == "" {
		dir = b.t.TempDir()
	}
	var grounds []uint32
	for scheme, value := range []string{"0", "1"} { // Chromium's numbers of dark and light
		path := filepath.Join(dir, name+[]string{"-dark.png", "-light.png"}[scheme])
		b.run(view, "--blink-settings=preferredColorScheme="+value, "--screenshot="+path)
		f, err := os.Open(path)
		if err != nil {
			b.t.Fatal(err)
		}
		picture, err := png.Decode(f)
		f.Close()
		if err != nil || picture.Bounds().Dx() != 1280 {
			b.t.Fatalf("%s: %v, %v", path, picture, err)
		}
		red, _, _, _ := picture.At(5, 300).RGBA()
		grounds = append(grounds, red>>8)
	}
	if grounds[0] > 64 || grounds[1] < 192 {
		b.t.Errorf("%s: the ground is %d in dark and %d in light", name, grounds[0], grounds[1])
	}
}

// TestProgramConsoleInChromium opens the views of the console while programs have traffic.
func TestProgramConsoleInChromium(t *testing.T) {
	testenv.Programs(t, "chromium")
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	c := clitest.Start(t, "console")
	c.Prints("#token=")
	b := &browser{t, strings.TrimSpace(c.Stdout.String())}
	b.shows("map", "No program has a device", "softrdma perf write bw")
	b.shows("fabric", "No fabric runs", "softrdma fabric up")

	server, client, port := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t), clitest.FreePort(t)
	clitest.Start(t, "perf", "write", "bw", "--keep", "-d", server, "-p", port).Prints("waiting")
	clitest.Start(t, "perf", "write", "bw", "-d", client, "-p", port, "-D", "600", "-q", "2", "127.0.0.1").Prints("2 queue pairs")
	b.shows("map", "softrdma perf", server, client, "2 QPs", "4 QPs", "B/s")
	b.shows("objects", "QPN", "RTS", server+":4791", "4 rows")
	b.shows("objects/mrs", "Regions", "Access", server)
	b.shows("connection", "Queue pair 0x", "Throughput", "Round trip", "Other end: 0x", "as both ends saw them", "PSN 0x")
	b.shows("faults", "lossy-link", "one packet in a hundred is lost", "Copy YAML", "none: switch a scenario on")
	for _, view := range []string{"map", "objects", "connection", "faults"} {
		b.screenshot(view, view)
	}

	fabric := clitest.Start(t, "fabric", "up", "--topology", "fat-tree:k=4", "--name", "console")
	fabric.Prints("48 active")
	b.shows("fabric", "Fabric console", "20 switches, 16 adapters, cables: 48 active", "leaf-0-0", "node-15", "Trace")
	b.screenshot("fabric", "fabric")

	wrong := &browser{t, b.url + "x"}
	wrong.shows("map", "Open the URL that softrdma console has printed")
}
