package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// A browser is Debian's Chromium without a screen.
type browser struct {
	t   *testing.T
	url string
}

// run opens a view with flags, and returns what Chromium prints. Its clock runs until the page has polled
// several times.
func (b *browser) run(view string, flags ...string) string {
	b.t.Helper()
	args := append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--window-size=1280,720",
		"--virtual-time-budget=6000", "--user-data-dir=" + b.t.TempDir(),
	}, flags...)
	cmd := exec.CommandContext(b.t.Context(), "chromium", append(args, b.url+"/"+view)...)
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &notes, time.Second
	if err := cmd.Run(); err != nil {
		b.t.Fatalf("chromium: %v\n%s", err, &notes)
	}
	return out.String()
}

var tags = regexp.MustCompile(`<[^>]*>`)

// text returns the text of a view, as it is shown.
func (b *browser) text(view string) string {
	b.t.Helper()
	return strings.Join(strings.Fields(tags.ReplaceAllString(b.run(view, "--dump-dom"), " ")), " ")
}

func (b *browser) shows(view string, words ...string) {
	b.t.Helper()
	text := b.text(view)
	if missing := slices.DeleteFunc(words, func(w string) bool { return strings.Contains(text, w) }); len(missing) > 0 {
		b.t.Errorf("%s: expected %q in\n%s", view, missing, text)
	}
}

// The page of the console runs in a browser and shows a program with its device.
func TestConsoleInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Chromium")
	}
	testenv.Programs(t, "chromium")
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
	address := clitest.ServerAddress(t)
	clitest.Start(t, "perf", "write", "bw", "--keep", "-d", address, "-p", clitest.FreePort(t)).Prints("waiting")
	c := clitest.Start(t, "console")
	c.Prints("#token=")
	b := &browser{t, strings.TrimSpace(c.Stdout.String())}
	b.shows("objects/devices", "Devices", address, "RoCE v2", "1 device")
}
