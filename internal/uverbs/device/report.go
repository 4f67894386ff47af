//go:build linux

package device

import (
	"fmt"
	"iter"

	"softrdma/internal/adapter"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

// Report returns a line for each of the first failures of a device, with the reasons of both ends, for
// each reason that the device has given, and for each rule of faults that has hit. The last line is the
// payload that it has carried, except of iWARP devices, which do not count it. With unlessIdle a device
// that has carried nothing has no such line.
func Report(d *verbs.Device, unlessIdle bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		if a := registry.Adapter(d); a != nil && !reportFailures(a, yield) {
			return
		}
		for name, n := range d.Counters() {
			if !yield(fmt.Sprintf("%s %d", name, n)) {
				return
			}
		}
		rules := d.Faults().Rules().Rules
		for i, n := range d.Faults().Counts() {
			if n > 0 && !yield(fmt.Sprintf("fault %d (%s): %s hits %d", i+1, rules[i].Name, rules[i].Action, n)) {
				return
			}
		}
		sent, received := d.Traffic()
		if unlessIdle && sent == 0 && received == 0 {
			return
		}
		yield(fmt.Sprintf("payload: %d bytes sent, %d received", sent, received))
	}
}

// reportFailures yields a line for each of the first failures, and one with the number of the others. It
// reports whether to continue.
func reportFailures(a *adapter.Device, yield func(string) bool) bool {
	first, all := a.Failures()
	for i := range first {
		if !yield(failure(&first[i])) {
			return false
		}
	}
	more := all - uint64(len(first))
	return more == 0 || yield(fmt.Sprintf("%d more failures", more))
}

// failure returns a line about a failure.
func failure(f *adapter.Failure) string {
	what := f.Status.String()
	if f.Status == queue.Success {
		what = verbs.EventType(f.Event).String()
	}
	return fmt.Sprintf("QP %#06x: %s: %s", f.QPN, what, reason.Sides(f.Own, f.Peer))
}
