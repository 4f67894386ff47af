package top

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
)

var update = flag.Bool("update", false, "write what the view shows to testdata")

// shown returns a model after two samples and keys.
func shown(width, height int, keys ...string) model {
	m := start("", true)
	m.width, m.height = width, height
	m = m.sampled(sampleAt(1)).sampled(sampleAt(2))
	return pressed(m, keys...)
}

func pressed(m model, keys ...string) model {
	for _, k := range keys {
		m, _ = m.key(k)
	}
	return m
}

// checkScreen compares a screen with a file, and checks that it fits.
func checkScreen(t *testing.T, name string, m model) {
	t.Helper()
	lines := m.view()
	if len(lines) != m.height {
		t.Errorf("%s: %d lines, expected %d", name, len(lines), m.height)
	}
	for _, l := range lines {
		if n := runewidth.StringWidth(l); n > m.width {
			t.Errorf("%s: %d columns, expected at most %d: %q", name, n, m.width, l)
		}
	}
	file, text := filepath.Join("testdata", name+".txt"), strings.Join(lines, "\n")+"\n"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("%s: -expected +found\n%s", name, d)
	}
}

var history = []string{
	"    0.000000  state     INIT -> RTR",
	"    0.000100  state     RTR -> RTS",
	"    0.100000  sent      RC RDMA WRITE First QP 0x00001f PSN 0x000064 len 4096",
	"    0.200000  refused   PACKET_REPEATED: packet counts as lost and is sent again: oldest unacknowledged PSN 0x000064, sent again 0x000065",
	"    0.300000  received  RC Acknowledge QP 0x00002a PSN 0x000064 ACK MSN 1",
}

func TestScreensOfAnySize(t *testing.T) {
	for _, x := range []struct {
		name          string
		width, height int
	}{{"80x24", 80, 24}, {"120x40", 120, 40}} {
		checkScreen(t, "tables-"+x.name, shown(x.width, x.height))
		m := shown(x.width, x.height, "enter")
		checkScreen(t, "detail-"+x.name, m.recorded(*m.open, history, nil))
	}
	empty := start("", true).sampled(&sample{At: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)})
	checkScreen(t, "empty", empty)
	checkScreen(t, "keys", shown(80, 24, "?"))
	for _, w := range []int{1, 20, 40, 79, 200} { // less than 80 is cut, but does not fail
		for _, h := range []int{1, 5, 10, 60} {
			for _, keys := range [][]string{nil, {"enter"}, {"tab", "down"}, {"?"}} {
				m := shown(w, h, keys...)
				for _, l := range m.view() {
					if n := runewidth.StringWidth(l); n > w {
						t.Errorf("%d x %d: %d columns in %q", w, h, n, l)
					}
				}
				if n := len(m.view()); n > h {
					t.Errorf("%d x %d: %d lines", w, h, n)
				}
			}
		}
	}
}

// lines returns those of the screen that contain a text.
func lines(m model, text string) (found []string) {
	for _, l := range m.view() {
		if strings.Contains(l, text) {
			found = append(found, l)
		}
	}
	return found
}

func TestFilterLeavesWhatContainsIt(t *testing.T) {
	m := shown(80, 24, "/", "W", "r", "i", "t", "x", "backspace", "e", "enter")
	if l := lines(m, "server"); l != nil {
		t.Errorf("%q", l)
	}
	if l := lines(m, "0x00002b"); len(l) != 1 {
		t.Errorf("%q", m.view())
	}
	if m = pressed(m, "/", "q", "esc"); len(lines(m, "server")) != 2 || m.filter != "" {
		t.Errorf("%q", m.view())
	}
	m = pressed(m, "/", "u", "d", "enter") // a queue pair's type
	if l := lines(m, "0x0000"); len(l) != 1 || !strings.Contains(l[0], "UD") {
		t.Errorf("%q", l)
	}
	if r := m.shown.filtered("0x00001f"); len(r.Processes) != 1 || r.Processes[0].PID != 4712 || len(m.shown.Processes) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRowsAreSortedByTheChosenColumn(t *testing.T) {
	order := func(m model) (numbers string) {
		_, qps := m.rows()
		for _, q := range qps {
			numbers += qpn(q.Number)[6:] + " "
		}
		return numbers
	}
	for _, x := range []struct {
		keys []string
		want string
	}{
		{nil, "2a 2b 1f "},           // TX B/s
		{[]string{"s"}, "1f 2b 2a "}, // RX B/s
		{[]string{"s", "r"}, "2a 2b 1f "},
		{[]string{"S"}, "2b 1f 2a "},                     // PEER
		{[]string{"s", "s", "s", "s", "s"}, "1f 2a 2b "}, // QPN
	} {
		if got := order(shown(80, 24, x.keys...)); got != x.want {
			t.Errorf("%v: found %s, expected %s", x.keys, got, x.want)
		}
	}
}

func TestSelectionFollowsTheQueuePair(t *testing.T) {
	m := shown(80, 24, "down")
	m = pressed(m, "r")
	if l := lines(m, "> "); len(l) != 1 || !strings.Contains(l[0], "0x00002b") {
		t.Errorf("%q", l)
	}
	if m = pressed(m, "end", "down", "home"); m.qps.row != 0 {
		t.Errorf("%+v", m.qps)
	}
	gone := sampleAt(3)
	gone.Processes = gone.Processes[:1]
	m = pressed(m, "tab", "end").sampled(gone)
	if l := lines(m, "> "); len(l) != 1 || !strings.Contains(l[0], "ib_write_bw") {
		t.Errorf("%q", l)
	}
}

func TestEnterOpensWhatIsSelected(t *testing.T) {
	m := shown(80, 24, "tab", "down", "enter")
	if _, qps := m.rows(); len(qps) != 1 || m.inDevices || len(lines(m, "queue pairs of 192.0.2.18 (4712)")) != 1 {
		t.Errorf("%q", m.view())
	}
	m, w := m.key("enter")
	if w != look || m.open == nil || m.open.QPN != 0x1f {
		t.Fatalf("%+v", m.open)
	}
	if m = m.recorded(*m.open, nil, errors.New("process 7: no")); len(lines(m, "process 7: no")) != 2 {
		t.Errorf("%q", m.view())
	}
	if m = m.sampled(&sample{}); len(lines(m, "queue pair 0x00001f of 192.0.2.18 has gone")) != 1 {
		t.Errorf("%q", m.view())
	}
	if m = pressed(m, "esc", "esc"); m.open != nil || m.only != nil {
		t.Errorf("%+v", m)
	}
	if _, w := m.key("q"); w != quit {
		t.Error("q does not quit")
	}
}

func TestPauseKeepsTheScreen(t *testing.T) {
	m := shown(80, 24, "space")
	before := m.view()
	if d := cmp.Diff(before, m.sampled(sampleAt(9)).view()); d != "" || len(lines(m, "paused")) != 1 {
		t.Error(d)
	}
	if d := cmp.Diff(before, pressed(m, "space").sampled(sampleAt(9)).view()); d == "" {
		t.Error("still paused")
	}
}

// A program chooses its name, and must not steer the terminal with it.
func TestNamesCannotSteerTheTerminal(t *testing.T) {
	s := sampleAt(2)
	s.Processes[0].Program = "x\x1b[2J\x9b\n"
	m := start("", true).sampled(s)
	for _, l := range m.view() {
		if strings.ContainsAny(l, "\x1b\n\u009b") {
			t.Errorf("%q", l)
		}
	}
	if m.plain = false; !strings.Contains(strings.Join(m.view(), "\n"), "\x1b[7m> ") {
		t.Errorf("no attributes in %q", m.view())
	}
}
