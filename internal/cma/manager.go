package cma

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"softrdma/internal/adapter"
)

// Config holds a Manager's settings. The zero value matches Linux.
type Config struct {
	// FirstPort and LastPort bound the ephemeral ports; 0 means 32768 and 60999, as
	// in Linux.
	FirstPort, LastPort uint16

	// Random chooses ports; nil means crypto/rand. Only simulations that must be
	// reproducible set it.
	Random func() uint32

	// Manual disables the goroutine that handles what devices report. The caller
	// calls Progress instead, as simulated time requires.
	Manual bool
}

// A Manager owns all ids over one Host.
type Manager struct {
	cfg   Config
	host  Host
	inbox inbox

	mu        sync.Mutex // held by every call; taken before a device's lane
	channels  map[*EventChannel]struct{}
	ids       int
	seq       uint64
	ports     map[port][]*ID
	lastPort  port
	devices   map[*adapter.Device]*device
	wildcards map[*ID]struct{} // ids that listen on all devices
}

// New returns a Manager over a host.
func New(h Host, c Config) *Manager {
	m := &Manager{
		cfg: c, host: h,
		channels: make(map[*EventChannel]struct{}), ports: make(map[port][]*ID),
		devices: make(map[*adapter.Device]*device), wildcards: make(map[*ID]struct{}),
	}
	m.inbox.m = m
	return m
}

// Counts are the numbers of existing objects.
type Counts struct {
	Channels int
	IDs      int
	Ports    int // ports in use, of all port spaces
	Devices  int
}

// Count returns how many objects exist.
func (m *Manager) Count() Counts {
	m.lock()
	defer m.unlock()
	return Counts{Channels: len(m.channels), IDs: m.ids, Ports: len(m.ports), Devices: len(m.devices)}
}

// lock locks the Manager and handles what its devices have reported.
func (m *Manager) lock() {
	m.mu.Lock()
	m.serve()
}

func (m *Manager) unlock() { m.mu.Unlock() }

// apart calls a function that waits, without the Manager's lock, which the caller holds.
func (m *Manager) apart(f func()) {
	m.unlock()
	defer m.lock()
	f()
}

// sorted returns ids in creation order, so that every run of a simulation does the
// same.
func (m *Manager) sorted(ids map[*ID]struct{}) []*ID {
	return slices.SortedFunc(maps.Keys(ids), func(a, b *ID) int { return cmp.Compare(a.seq, b.seq) })
}

// Progress handles what devices have reported, and returns when it wants to be
// called again. A simulated network drives a Manual Manager like a device, after
// the real devices.
func (m *Manager) Progress() time.Duration {
	m.mu.Lock()
	defer m.unlock()
	if m.serve() {
		return 0 // devices may have something to send
	}
	return never
}

const never = time.Duration(1<<63 - 1)

// Wait waits until the Manager's goroutine has ended, which it does when the inbox
// is empty. The owner of the devices calls it last.
func (m *Manager) Wait() { m.inbox.running.Wait() }
