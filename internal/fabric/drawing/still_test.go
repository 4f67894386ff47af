package drawing

import (
	"strings"
	"testing"
	"time"

	"softrdma/internal/fabric/control"
)

// Lanes that stand still are red, and the picture says what each waits for, those in a deadlock first.
func TestWhatStandsStillIsShown(t *testing.T) {
	for network, word := range map[string]string{control.Ethernet: "priority", control.InfiniBand: "lane"} {
		p := picture(t, "ring:3")
		red := strings.Count(string(SVG(p)), colorDown)
		at := func(node string, port int) control.Channel { return control.Channel{Node: node, Port: port, VL: 3} }
		p.Network = network
		p.Still = []control.Lane{
			{Channel: at("switch-1", 3), To: "node-1", Time: time.Second, Packets: 7, Cause: control.CauseProgram},
			{Channel: at("switch-0", 1), To: "switch-1:2", Time: time.Second, Packets: 9, Cause: control.CauseDeadlock, Waits: []control.Channel{at("switch-1", 1)}},
		}
		first := "switch-0:1 " + word + " 3 → switch-1:2: "
		for name, text := range map[string]string{"SVG": string(SVG(p)), "terminal": Terminal(p, 100, true)} {
			i, k := strings.Index(text, first), strings.Index(text, "switch-1:3 "+word+" 3 → node-1: ")
			if i < 0 || k < i || !strings.Contains(text, "waits for switch-1:1 "+word+" 3 (deadlock)") || !strings.Contains(text, "the host takes nothing") {
				t.Errorf("%s of %s: %s", name, network, text)
			}
			if name == "terminal" && !strings.Contains(text, bold+"\x1b[31m") {
				t.Error("no bold red on the terminal")
			}
		}
		if n := strings.Count(string(SVG(p)), colorDown); n < red+4 { // two halves, two lines of text
			t.Errorf("%d red marks, %d without what stands still", n, red)
		}
	}
}
