package cli

import (
	"fmt"
	"io"

	"softrdma/verbs"
)

// PrintCounters prints a line for each reason that a device has given, and one with the payload that
// it has carried, except for iWARP devices, which do not count it. With unlessIdle a device that has
// carried nothing has no such line.
func PrintCounters(w io.Writer, prefix string, d *verbs.Device, unlessIdle bool) {
	for name, n := range d.Counters() {
		fmt.Fprintf(w, "softrdma: %s%s %d\n", prefix, name, n)
	}
	sent, received := d.Traffic()
	if d.Protocol() == verbs.IWARP || unlessIdle && sent == 0 && received == 0 {
		return
	}
	fmt.Fprintf(w, "softrdma: %spayload: %d bytes sent, %d received\n", prefix, sent, received)
}
