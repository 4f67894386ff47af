//go:build interop && linux

package fabrics

import (
	"regexp"
	"strings"
	"testing"
)

// TestPortsAreDisabledAndSlowedDown changes the cable between a spine and a leaf by ibportstate.
func TestPortsAreDisabledAndSlowedDown(t *testing.T) {
	r := newRig(t, "--topology", tree, "--no-sm")
	r.opensm("node-0")
	lid := r.lids()["spine-0-0"]
	port := func(args ...string) string {
		return r.run("node-1", append([]string{"ibportstate", lid, "1"}, args...)...)
	}
	// query waits for words in the answer about the port at this end.
	query := func(words string) {
		t.Helper()
		r.eventually(words, func() bool {
			own, _, _ := strings.Cut(port("query"), "Peer PortInfo")
			return regexp.MustCompile(words).MatchString(own)
		})
	}
	active := func() {
		t.Helper()
		r.eventually("all links", func() bool { return strings.Contains(r.fabric("status"), "48 active") })
		query(`LinkState:\.*Active`)
	}
	port("disable")
	query(`PhysLinkState:\.*Disabled`)
	r.eventually("a link that is down", func() bool { return strings.Contains(r.fabric("status"), "47 active") })
	port("enable")
	active()

	port("espeed", "1") // 14.0625 Gb/s
	port("width", "1")
	port("reset")
	active()
	query(`(?s)LinkWidthActive:\.*1X\n.*LinkSpeedExtActive:\.*14.0625 Gbps`)
	port("espeed", "30") // none: QDR at most
	port("speed", "1")
	port("reset")
	active()
	query(`(?s)LinkSpeedActive:\.*2.5 Gbps\n.*LinkSpeedExtActive:\.*No Extended Speed`)

	port("espeed", "31")
	port("speed", "15")
	port("width", "255")
	port("reset")
	active()
	query(`(?s)LinkWidthActive:\.*4X\n.*LinkSpeedExtActive:\.*25.78125 Gbps`)
	port("down")
	active()

	r.run("node-1", "ibportstate", r.lids()["node-15"], "1", "off")
	r.eventually("an adapter that is gone", func() bool {
		return !strings.Contains(r.run("node-1", "ibnetdiscover"), `"node-15"`)
	})
}
