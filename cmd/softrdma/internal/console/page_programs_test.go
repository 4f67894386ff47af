//go:build interop && linux

package console

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"softrdma/internal/testenv/chromium"
)

//go:embed testdata/layout.js
var layout string

var someNames = []string{"ib_write_bw", "rping", "trainer", "storage"}

// views are those of the console. Each is opened with programs and with none.
var views = []string{"map", "objects", "objects/devices", "connection", "faults", "fabric", "fabric/999/blue/ports", "captures", "lessons"}

// ready is an expression for whether a view shows its first snapshot.
const ready = `document.getElementById("totals").textContent !== ""`

// TestProgramConsoleIsReadable looks at all views with few, a thousand and no programs, in light and dark.
func TestProgramConsoleIsReadable(t *testing.T) {
	b := chromium.NewTab(t)
	for _, c := range []struct {
		name    string
		devices int
		fabric  string
	}{{name: "few", devices: 6, fabric: "ring:5"}, {name: "many", devices: 1000, fabric: "fat-tree:k=16"}, {name: "none"}} {
		p := pretend(t, func(second int) any {
			s := programs(someNames, c.devices, 4, second)
			if c.fabric != "" {
				s.Fabrics = append(s.Fabrics, fabrics(t, c.fabric, second))
			}
			if c.devices > 0 {
				s.Processes[0].Devices[0].QPs[0].State, s.Processes[0].Devices[0].State = "ERR", "down"
			}
			return s
		})
		for _, view := range views {
			b.Open(p.url(view))
			b.Await(ready)
			for _, scheme := range []string{"light", "dark"} {
				b.Scheme(scheme)
				b.Screenshot(fmt.Sprintf("%s-%s-%s", strings.ReplaceAll(view, "/", "-"), c.name, scheme))
				check(t, b, view+" "+c.name+" "+scheme)
			}
		}
	}
}

// check looks for colors that are too alike, and for parts that do not fit.
func check(t *testing.T, b *chromium.Tab, name string) {
	t.Helper()
	var outside []string
	b.Evaluate(layout, &outside)
	for _, line := range append(b.Contrast(), outside...) {
		t.Errorf("%s: %s", name, line)
	}
}
