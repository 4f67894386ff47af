package cma

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"softrdma/internal/adapter"
)

// Config are a Manager's settings. The zero value is as Linux has it.
type Config struct {
	// FirstPort and LastPort bound the ports that Bind draws for port 0; 0 means
	// 32768 and 60999, Linux's ephemeral ports.
	FirstPort, LastPort uint16

	// Random draws ports; nil takes crypto/rand. Simulations that must run the
	// same way twice set it, nobody else does.
	Random func() uint32

	// Manual leaves out the goroutine that serves what devices report: the
	// caller does it with Progress, as simulated time wants it.
	Manual bool
}

// A Manager is all ids over one Host.
type Manager struct {
	cfg   Config
	host  Host
	inbox inbox

	mu        sync.Mutex // held in every call; taken before a device's lane
	channels  map[*EventChannel]struct{}
	ids       int
	seq       uint64
	ports     map[port][]*ID
	lastPort  port
	devices   map[*adapter.Device]*device
	wildcards map[*ID]struct{} // ids that listen on all devices
}

// New makes a Manager over a host.
func New(h Host, c Config) *Manager {
	m := &Manager{
		cfg: c, host: h,
		channels: make(map[*EventChannel]struct{}), ports: make(map[port][]*ID),
		devices: make(map[*adapter.Device]*device), wildcards: make(map[*ID]struct{}),
	}
	m.inbox.m = m
	return m
}

// Counts are the numbers of what exists.
type Counts struct {
	Channels int
	IDs      int
	Ports    int // ports in use, of all port spaces
	Devices  int
}

// Count tells how much exists.
func (m *Manager) Count() Counts {
	m.lock()
	defer m.unlock()
	return Counts{Channels: len(m.channels), IDs: m.ids, Ports: len(m.ports), Devices: len(m.devices)}
}

// lock takes the Manager and brings it up to date with what its devices have
// reported.
func (m *Manager) lock() {
	m.mu.Lock()
	m.serve()
}

func (m *Manager) unlock() { m.mu.Unlock() }

// sorted gives ids in the order of their making, so that what is done with all
// of them is done in the same order in every run.
func (m *Manager) sorted(ids map[*ID]struct{}) []*ID {
	return slices.SortedFunc(maps.Keys(ids), func(a, b *ID) int { return cmp.Compare(a.seq, b.seq) })
}

// Progress serves what devices have reported, and tells as a device does when
// it wants to be called again: a simulated network drives a Manual Manager as
// one more device, after the others.
func (m *Manager) Progress() time.Duration {
	m.mu.Lock()
	defer m.unlock()
	if m.serve() {
		return 0 // devices have got something to send
	}
	return never
}

const never = time.Duration(1<<63 - 1)

// Wait returns when the Manager's goroutine has ended, which it does when there
// is nothing left to serve. Who closes the devices calls it last.
func (m *Manager) Wait() { m.inbox.running.Wait() }
