//go:build interop && linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv/chromium"
)

// consoleTab starts a console and opens a view of it in Chromium.
func consoleTab(t *testing.T, view string) *tab {
	t.Helper()
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	c := clitest.Start(t, "console")
	c.Prints("#token=")
	b := &tab{chromium.NewTab(t), t}
	b.Open(strings.TrimSpace(c.Stdout.String()) + "/" + view)
	return b
}

// TestProgramCapturesInChromium opens files in the page, and walks through the ladder with the keyboard.
func TestProgramCapturesInChromium(t *testing.T) {
	b := consoleTab(t, "captures")
	b.Await("document.body.textContent.includes('No capture')")
	b.screenshot("captures-empty")
	golden, err := filepath.Abs("../../interop/suites/testdata/golden_rxe_ipv4.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	b.files("input[type=file]", golden)
	b.Await("document.querySelectorAll('.rung').length > 4")
	for selector, want := range map[string]string{
		".rung.fault .number": "★ 51", ".rung.chosen .what": "this packet is refused", ".bar .push": "217 packets, 15 faults", ".ends": "10.77.0.2",
	} {
		if text := b.shown(selector); !strings.Contains(text, want) {
			t.Errorf("%s: expected %q, found %q", selector, want, text)
		}
	}
	b.screenshot("captures")
	b.press("n", "Enter")
	b.Await("document.querySelector('dialog').textContent.includes('IBTA')")
	if text := b.shown("dialog"); !strings.Contains(text, "NAK_REMOTE_ACCESS") {
		t.Errorf("explained:\n%s", text)
	}
	b.screenshot("captures-explain")
	b.press("Escape")
	b.Await("!document.querySelector('dialog').open")
	b.files("input[type=file]", golden, golden)
	b.Await("document.querySelector('.rung.fault .number')?.textContent === '★ 51/51'")
	b.press("/", "C", "m", "p", "S", "w", "a", "p")
	b.Await("[1, 2, 3, 4].includes(document.querySelectorAll('.choices li').length)")
	b.clean()
}

// TestProgramLessonsInChromium takes all lessons with the keyboard.
func TestProgramLessonsInChromium(t *testing.T) {
	b := consoleTab(t, "lessons")
	b.Await("document.querySelectorAll('.cards li').length === 5")
	b.screenshot("lessons")
	for _, l := range []struct{ id, shows string }{
		{"queue-pair", "SEND Only"}, {"status-9", "IBV_WC_REM_INV_REQ_ERR"}, {"lost-packet", "lost on the way"}, {"deadlock", "each lane waits for the next"},
		{"zero-copy", "copied by the programs"},
	} {
		b.text("location.hash = 'lessons/" + l.id + "'")
		b.Await("document.querySelector('.go')?.textContent === 'Start the lesson'")
		b.screenshot("lesson-" + l.id)
		seen := ""
		for end := false; !end; {
			b.press("Enter") // the button has the focus
			b.Await("!document.querySelector('.go').disabled")
			if b.shown(".go") == "Run this step" {
				continue
			}
			if now := b.shown("main"); !strings.Contains(seen, l.shows) && strings.Contains(now, l.shows) {
				b.screenshot("lesson-" + l.id + "-runs")
			}
			seen += b.shown("main")
			end = b.shown(".go") == "Start the lesson again"
		}
		if !strings.Contains(seen, l.shows) || !strings.Contains(seen, "closed what it opened") {
			t.Errorf("%s: expected %q in\n%s", l.id, l.shows, seen)
		}
		b.clean()
	}
}
