package rdmacm

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/bridge"
	"softrdma/internal/cma"
	"softrdma/internal/connect"
	"softrdma/internal/host"
	"softrdma/verbs"
)

// linger is how long a device stays open after its last use: successive
// connections need not open it anew, and the last messages find it there.
const linger = 250 * time.Millisecond

// devices are those that ids of this process are on.
var devices = &deviceTable{used: make(map[*adapter.Device]*deviceUse)}

// manager is this process's.
var manager = sync.OnceValue(func() connect.Local { return connect.Local{Manager: cma.New(devices, cma.Config{})} })

func init() {
	bridge.Vacate = devices.vacate
	bridge.Closing = devices.closing
}

// A deviceTable is the cma.Host of a process: devices of package verbs by
// address, opened when they are first wanted and counted, or found where the
// program has opened them.
type deviceTable struct {
	opening sync.Mutex // one is looked for, opened or closed at a time; taken before mu

	mu          sync.Mutex
	used        map[*adapter.Device]*deviceUse
	localClient *deviceUse // the device that Source chose, for the Acquire that follows
}

// A deviceUse is a device and how many ids are on it.
type deviceUse struct {
	dev         *verbs.Device
	n           int
	own         bool        // opened here, so closed here
	localClient bool        // opened for clients to this machine, see deviceTable.Source
	idle        *time.Timer // closes the device; runs while own and n is 0
}

// Acquire gives the device of a local address, and counts one more use of it.
func (t *deviceTable) Acquire(local netip.AddrPort, p cma.Protocol) (*adapter.Device, error) {
	return t.AcquireAs(local, p, nil)
}

// AcquireAs is Acquire of a device with TLS, where way is a *tls.Config.
func (t *deviceTable) AcquireAs(local netip.AddrPort, _ cma.Protocol, way any) (*adapter.Device, error) {
	t.opening.Lock()
	defer t.opening.Unlock()
	security, _ := way.(*tls.Config)
	u := t.takeLocalClient(local)
	isLocal := u != nil
	if isLocal && !t.stands(u) { // it was closed since, for want of users
		local, u = u.dev.Addr(), nil
	}
	if u == nil {
		var err error
		if u, err = t.open(local, security); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u.localClient = u.localClient || isLocal && u.own
	a := bridge.Device(u.dev)
	if t.used[a] != u {
		return nil, fmt.Errorf("device %v: %w", u.dev.Addr(), verbs.ErrClosed) // meanwhile, by the program
	}
	u.n++
	if u.idle != nil {
		u.idle.Stop()
		u.idle = nil
	}
	return a, nil
}

// stands reports whether a device is still open since it was found.
func (t *deviceTable) stands(u *deviceUse) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used[bridge.Device(u.dev)] == u
}

// Release ends one use of a device.
func (t *deviceTable) Release(a *adapter.Device) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.used[a]
	if u == nil {
		return // closed by the program
	}
	if u.n--; u.n == 0 {
		t.rest(u)
	}
}

// PathMTU is what the system knows of the way to a destination.
func (t *deviceTable) PathMTU(dst netip.Addr) int { return host.PathMTU(dst) }

// Addresses are those that a listener on an unspecified address listens on.
func (t *deviceTable) Addresses() ([]netip.Addr, error) { return host.LocalAddresses() }

// open finds or opens the device of an address: of iWARP where the port is 0.
// The caller holds opening.
func (t *deviceTable) open(at netip.AddrPort, security *tls.Config) (*deviceUse, error) {
	dev, own := t.opened(at), false
	if dev != nil && !t.suits(dev, security) {
		if !t.drop(dev) {
			return nil, &SecurityError{Device: deviceName(at), TLS: bridge.Security(dev) != nil}
		}
		dev = nil
	}
	if dev == nil {
		var err error
		if dev, err = verbs.Open(deviceName(at), verbs.Config{TLS: security}); err != nil {
			return nil, err
		}
		own = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := bridge.Device(dev)
	if u := t.used[a]; u != nil {
		return u, nil
	}
	u := &deviceUse{dev: dev, own: own}
	t.used[a] = u
	if own {
		t.rest(u)
	}
	return u, nil
}

// suits tells whether an open device has the TLS that is wanted. Where none is, a
// device of the program's suits as it is, and one that was opened here only without.
func (t *deviceTable) suits(dev *verbs.Device, want *tls.Config) bool {
	if bridge.Security(dev) == want {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.used[bridge.Device(dev)]
	return want == nil && (u == nil || !u.own)
}

// drop closes a device that was opened here if nobody uses it any more. The caller
// holds opening.
func (t *deviceTable) drop(dev *verbs.Device) bool {
	t.mu.Lock()
	u := t.used[bridge.Device(dev)]
	t.mu.Unlock()
	return u != nil && u.own && t.closeIdle(u)
}

// A SecurityError is a Dialer or ListenConfig whose TLS is not that of the device
// that is open on its address: one address has one device in a process, with one
// configuration of TLS or none.
type SecurityError struct {
	Device string // the device's name
	TLS    bool   // that it has
}

// Error says what there is to do.
func (e *SecurityError) Error() string {
	have := "without TLS"
	if e.TLS {
		have = "with another TLS configuration"
	}
	return fmt.Sprintf("device %s is in use in this process %s: expected the same *tls.Config for all connections of an address", e.Device, have)
}

// opened is the device that this process has open on an address.
func (t *deviceTable) opened(at netip.AddrPort) *verbs.Device {
	dev, _ := bridge.Opened(at).(*verbs.Device)
	return dev
}

// rest lets go of a device without users: of the program's at once, of an own
// one after a moment. The caller holds mu.
func (t *deviceTable) rest(u *deviceUse) {
	if u.own {
		u.idle = time.AfterFunc(linger, func() { t.close(u) })
		return
	}
	delete(t.used, bridge.Device(u.dev))
}

// close closes an own device that has no users. Nobody looks for a device
// meanwhile, who would still find it.
func (t *deviceTable) close(u *deviceUse) {
	t.opening.Lock()
	defer t.opening.Unlock()
	t.closeIdle(u)
}

// closeIdle is close for who holds opening, and tells whether there was no user.
func (t *deviceTable) closeIdle(u *deviceUse) bool {
	t.mu.Lock()
	a := bridge.Device(u.dev)
	idle := t.used[a] == u && u.n == 0
	if idle {
		delete(t.used, a)
	}
	t.mu.Unlock()
	if idle {
		_ = u.dev.Close() // it has no captures, whose errors these would be
	}
	return idle
}

// vacate closes the own device on an address if it has no users (bridge.Vacate).
func (t *deviceTable) vacate(at netip.AddrPort) {
	if dev := t.opened(at); dev != nil {
		t.mu.Lock()
		u := t.used[bridge.Device(dev)]
		t.mu.Unlock()
		if u != nil && u.own {
			t.close(u)
		}
	}
}

// closing takes a device that the program closes away from the ids on it
// (bridge.Closing).
func (t *deviceTable) closing(dev any) {
	a := bridge.Device(dev)
	t.mu.Lock()
	u := t.used[a]
	delete(t.used, a)
	t.mu.Unlock()
	if u != nil && u.n > 0 {
		manager().RemoveDevice(a)
	}
}

// verbsDevice is the device of package verbs that an adapter's belongs to.
func (t *deviceTable) verbsDevice(a *adapter.Device) *verbs.Device {
	if a == nil {
		return nil
	}
	if dev := t.opened(a.Local()); dev != nil && bridge.Device(dev) == a {
		return dev
	}
	return nil
}

// deviceName is what package verbs calls the device of an address.
func deviceName(at netip.AddrPort) string {
	if at.Port() == 0 {
		return "iwarp:" + at.Addr().String()
	}
	return at.String()
}

// fullAddr names the UDP port that 0 means.
func fullAddr(a netip.AddrPort) netip.AddrPort {
	port := a.Port()
	if port == 0 {
		port = verbs.Port
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), port)
}
