//go:build linux

package daemon

import (
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
)

// PortSpace implements provider.Identity.
func (x *id) PortSpace() cmid.PortSpace { return x.space }

// Type implements provider.Identity.
func (x *id) Type() qp.Type { return x.kind }

// State implements provider.Identity. It returns the state that this process knows,
// or asks the daemon.
func (x *id) State() cmid.State {
	s := x.known()
	if s == cmid.Idle {
		if now, err := x.queryState(); err == nil {
			return now
		}
	}
	return s
}

// known returns the state according to events, Idle if there were none.
func (x *id) known() cmid.State {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.destroyed {
		return cmid.Destroying
	}
	return x.state
}

// queryState asks the daemon for the state.
func (x *id) queryState() (cmid.State, error) {
	n := uapi.Size[uapi.CMAddr]()
	a, err := x.ask("query", uapi.CMQuery, &uapi.CMByID{}, n+uapi.Size[uapi.OwnCMAddr]())
	if err != nil {
		return 0, err
	}
	r, _ := uapi.Parse[uapi.OwnCMAddr](a[n:])
	return cmid.State(r.State), nil
}

// Local implements provider.Identity.
func (x *id) Local() netip.AddrPort {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.local
}

// Remote implements provider.Identity.
func (x *id) Remote() netip.AddrPort {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.remote
}

// Device implements provider.Identity. It returns nil, because the device is not in
// this process.
func (x *id) Device() netip.AddrPort { return netip.AddrPort{} }

// Removed implements provider.Identity.
func (x *id) Removed() bool { return x.known() == cmid.DeviceRemoval }

// remove detaches the id from the device. It reports whether the program must be
// told: the id was on the device, and the program has the id.
func (x *id) remove() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.local.IsValid() || x.destroyed || x.state == cmid.DeviceRemoval {
		return false
	}
	x.state = cmid.DeviceRemoval
	return !x.waiting
}

// found records the addresses of an event.
func (x *id) found(own *uapi.OwnCMEvent) { x.at(own.Local[:], own.Remote[:]) }

func (x *id) at(local, remote []byte) {
	l, _ := uapi.ParseAddr(local) // the daemon sends valid addresses or none
	r, _ := uapi.ParseAddr(remote)
	x.mu.Lock()
	x.local, x.remote = l, r
	x.mu.Unlock()
}

// queryAddrs asks the daemon for the addresses, which a call may have changed.
func (x *id) queryAddrs() error {
	a, err := x.ask("query", uapi.CMQuery, &uapi.CMByID{}, uapi.Size[uapi.CMAddr]())
	if err != nil {
		return err
	}
	r, _ := uapi.Parse[uapi.CMAddr](a)
	x.at(r.Src[:], r.Dst[:])
	x.catchUp()
	return nil
}

// catchUp reports the end of the device if the channel noticed it before the id
// was on the device.
func (x *id) catchUp() {
	x.d.moves.Lock()
	defer x.d.moves.Unlock()
	h, err := x.channel("query")
	if err != nil {
		return
	}
	if h.isLost() && x.remove() {
		h.tell(x)
	}
}

// came records the state that follows from an event.
func (x *id) came(t cmid.EventType) {
	if t == cmid.EventDisconnected {
		x.mu.Lock()
		x.state = cmid.Disconnect
		x.mu.Unlock()
	}
}
