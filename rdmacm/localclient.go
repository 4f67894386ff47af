package rdmacm

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"softrdma/internal/cma"
	"softrdma/internal/host"
	"softrdma/verbs"
)

// Source returns the local address from which ids reach a destination.
//
// A client that connects to an address of this machine must not use an address and
// UDP port that a server may need. One address and port is one device, so such a
// client would keep the server from starting, or fail if the server is running.
// Therefore it uses the route's source address, with the MTU of that interface, and
// a random UDP port. A client to 127.0.0.0/8 instead gets a random address between
// 127.64.0.0 and 127.253.255.254, if the system has all of 127.0.0.0/8. If this
// process already has the device of the route's source address open, the client
// uses that device.
//
// iWARP needs none of this: any number of processes can use one address.
func (t *deviceTable) Source(dst netip.Addr, p cma.Protocol) (netip.Addr, error) {
	src, err := host.Source(dst)
	if err != nil || p == cma.IWARP {
		return src, err
	}
	t.opening.Lock()
	defer t.opening.Unlock()
	t.setLocalClient(nil)
	if t.opened(fullAddr(netip.AddrPortFrom(src, 0))) != nil {
		return src, nil
	}
	if here, err := host.IsLocal(dst.Unmap()); err != nil || !here {
		return src, nil
	}
	if u := t.findLocalClient(src); u != nil {
		return u.dev.Addr().Addr(), nil
	}
	draw := randomPort
	if src.Is4() && src.IsLoopback() {
		draw = randomLoopback
	}
	for range 64 {
		u, err := t.open(draw(src), nil)
		switch {
		case err == nil:
			t.mu.Lock()
			u.localClient = true
			t.localClient = u
			t.mu.Unlock()
			return u.dev.Addr().Addr(), nil
		case !host.AddressInUse(err):
			draw = randomPort // on this system only 127.0.0.1 is local
		}
	}
	return src, nil
}

// randomLoopback chooses a loopback address for a client of a loopback address.
func randomLoopback(netip.Addr) netip.AddrPort {
	var b [3]byte
	rand.Read(b[:])
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 64 + b[0]%190, b[1], 1 + b[2]%254}), verbs.Port)
}

// randomPort chooses a UDP port from the private range for a client to this
// machine.
func randomPort(src netip.Addr) netip.AddrPort {
	var b [2]byte
	rand.Read(b[:])
	return netip.AddrPortFrom(src, 49152+binary.BigEndian.Uint16(b[:])%16384)
}

func (t *deviceTable) setLocalClient(u *deviceUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.localClient = u
}

// findLocalClient finds the device of another client to this machine.
func (t *deviceTable) findLocalClient(src netip.Addr) *deviceUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.used {
		at := u.dev.Addr().Addr()
		loopback := at.Is4() && at.IsLoopback() && src.Is4() && src.IsLoopback()
		if !u.localClient || at != src && !loopback {
			continue
		}
		if u.idle != nil && !u.idle.Reset(linger) {
			continue // is being closed
		}
		t.localClient = u
		return u
	}
	return nil
}

// takeLocalClient is what Source meant by an address and the usual UDP port. The
// manager asks for it right after Source; any other Acquire forgets it.
func (t *deviceTable) takeLocalClient(local netip.AddrPort) *deviceUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.localClient
	t.localClient = nil
	if u != nil && local == netip.AddrPortFrom(u.dev.Addr().Addr(), verbs.Port) {
		return u
	}
	return nil
}
