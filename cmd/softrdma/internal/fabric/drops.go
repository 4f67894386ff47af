package fabric

import (
	"fmt"
	"io"
	"net/netip"
	"sync"

	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// drops counts dropped packets.
type drops struct {
	out    io.Writer
	fabric *topology.Fabric

	mu    sync.Mutex
	count map[reason.Reason]int
}

// add is called by the goroutine of the fabric.
func (d *drops) add(at topology.End, why reason.Detail) { d.note(d.fabric.EndName(at), why) }

// addRemote is add for what came from another host. Any goroutine calls it.
func (d *drops) addRemote(from netip.AddrPort, why reason.Detail) {
	d.note("the UDP port for "+from.String(), why)
}

func (d *drops) note(where string, why reason.Detail) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[why.Reason]++
	if d.count[why.Reason] == 1 {
		fmt.Fprintf(d.out, "softrdma: %s dropped a packet: %v (%v)\n", where, why, why.Reason)
	}
}

func (d *drops) print() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range reason.Count {
		if n := d.count[r]; n > 0 {
			fmt.Fprintf(d.out, "softrdma: %v %d\n", r, n)
		}
	}
}
