//go:build linux

package device

import (
	"fmt"
	"iter"

	"softrdma/verbs"
)

// Report returns a line for each reason that a device has given, and one with the payload that it has
// carried, except for iWARP devices, which do not count it. With unlessIdle a device that has carried
// nothing has no such line.
func Report(d *verbs.Device, unlessIdle bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, n := range d.Counters() {
			if !yield(fmt.Sprintf("%s %d", name, n)) {
				return
			}
		}
		sent, received := d.Traffic()
		if d.Protocol() == verbs.IWARP || unlessIdle && sent == 0 && received == 0 {
			return
		}
		yield(fmt.Sprintf("payload: %d bytes sent, %d received", sent, received))
	}
}
