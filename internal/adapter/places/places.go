// Package places finds the devices of a process by where they are reached.
package places

import (
	"sync"
	"sync/atomic"

	"softrdma/internal/qp"
)

// A Place is where a device is reached, and by what frames.
type Place struct {
	Kind string // of the frames, "" of streams
	At   qp.Endpoint
}

// A Map has the devices of a process. The zero value is empty and ready for use, by any
// goroutine.
type Map[D comparable] struct {
	mu      sync.Mutex
	devices map[Place]D
	changes atomic.Uint32
}

// Add enters a device. Of devices that share a place the first one is found.
func (m *Map[D]) Add(p Place, d D) {
	var none D
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.devices == nil {
		m.devices = make(map[Place]D)
	}
	if m.devices[p] == none {
		m.devices[p] = d
	}
	m.changes.Add(1)
}

// Remove ends Add.
func (m *Map[D]) Remove(p Place, d D) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.devices[p] == d {
		delete(m.devices, p)
	}
	m.changes.Add(1)
}

// Find returns the device at a place, or the zero D. The answer holds until Changes differs.
func (m *Map[D]) Find(p Place) D {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.devices[p]
}

// Changes counts the calls of Add and Remove.
func (m *Map[D]) Changes() uint32 { return m.changes.Load() }
