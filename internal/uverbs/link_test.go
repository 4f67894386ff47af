//go:build linux

package uverbs

import (
	"testing"

	"github.com/vishvananda/netlink"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

// Health checks read the state of a port from its files.
func TestFilesOfAPortFollowTheLink(t *testing.T) {
	if !hosttest.Inside(t) {
		return
	}
	link, _ := hosttest.Cable(t, "port0", "10.1.2.3/24")
	dev, err := verbs.Open("port0", verbs.Config{})
	hosttest.Must(t, err)
	defer dev.Close()
	s, err := Serve(Config{Dir: t.TempDir(), Devices: []*verbs.Device{dev}})
	hosttest.Must(t, err)
	defer s.Close()
	follows := func(state, phys string) {
		t.Helper()
		eventually(t, state+" in the files", func() bool { return portFile(s, "state") == state && portFile(s, "phys_state") == phys })
	}
	follows("4: ACTIVE", "5: LinkUp")
	hosttest.Must(t, netlink.LinkSetDown(link))
	follows("1: DOWN", "3: Disabled")
	hosttest.Must(t, netlink.LinkSetUp(link))
	follows("4: ACTIVE", "5: LinkUp")
}
