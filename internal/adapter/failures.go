package adapter

import (
	"sync"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// keptFailures is how many failures a device remembers: the first ones, which cause others.
const keptFailures = 8

// A Failure is a work request that failed, or a request of the peer that ended a queue pair.
type Failure struct {
	QPN    uint32
	Status queue.Status  // of the completion; queue.Success for an event
	Event  machine.Event // if there is no completion
	Own    reason.Detail
	Peer   reason.Detail // what the peer says, if anything
}

// failures are the first failures of a device, and how many there were.
type failures struct {
	mu    sync.Mutex
	first []Failure
	n     uint64
}

// add remembers a failure.
func (f *failures) add(x Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; len(f.first) < keptFailures {
		f.first = append(f.first, x)
	}
}

// event remembers an event that says why a queue pair failed.
func (f *failures) event(qpn uint32, e machine.Event, d reason.Detail) {
	switch e {
	case machine.EventQPFatal, machine.EventQPReqErr, machine.EventQPAccessErr:
		f.add(Failure{QPN: qpn, Event: e, Own: d})
	}
}

// KeepsReasons reports whether peers are not told why their requests are refused.
func (d *Device) KeepsReasons() bool { return d.cfg.KeepReasons }

// Failures returns the first failures of the device, and how many there were.
func (d *Device) Failures() (first []Failure, n uint64) {
	f := &d.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(first, f.first...), f.n
}
