package rdmacm

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"softrdma/internal/cma"
	"softrdma/internal/host"
	"softrdma/verbs"
)

// Source is the local address from which ids reach a destination.
//
// A client to an address of this machine is a visitor: it takes no address and
// UDP port that a server may want, before or after. One address and port is one
// device, so the client would keep the server from starting, or fail where that
// one runs. A visitor gets the route's source address, and with it the MTU of
// that interface, with a random UDP port. Only a client to 127.0.0.0/8 gets an
// address of its own (127.64.0.0 to 127.253.255.254, by random), where the
// system has all of these. Where this process has the device of the route's
// source open anyway, that one is taken.
//
// iWARP devices are no visitors: any number of processes can have one address.
func (t *deviceTable) Source(dst netip.Addr, p cma.Protocol) (netip.Addr, error) {
	src, err := host.Source(dst)
	if err != nil || p == cma.IWARP {
		return src, err
	}
	t.opening.Lock()
	defer t.opening.Unlock()
	t.setVisitor(nil)
	if t.opened(fullAddr(netip.AddrPortFrom(src, 0))) != nil {
		return src, nil
	}
	if here, err := host.IsLocal(dst.Unmap()); err != nil || !here {
		return src, nil
	}
	if u := t.findVisitor(src); u != nil {
		return u.dev.Addr().Addr(), nil
	}
	draw := visitorPort
	if src.Is4() && src.IsLoopback() {
		draw = visitorAddr
	}
	for range 64 {
		u, err := t.open(draw(src), nil)
		switch {
		case err == nil:
			t.mu.Lock()
			u.visitor = true
			t.visitor = u
			t.mu.Unlock()
			return u.dev.Addr().Addr(), nil
		case !host.AddressInUse(err):
			draw = visitorPort // on this system only 127.0.0.1 is local
		}
	}
	return src, nil
}

// visitorAddr draws a loopback address for a client to one.
func visitorAddr(netip.Addr) netip.AddrPort {
	var b [3]byte
	rand.Read(b[:])
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 64 + b[0]%190, b[1], 1 + b[2]%254}), verbs.Port)
}

// visitorPort draws a UDP port for a client to this machine, of those for private use.
func visitorPort(src netip.Addr) netip.AddrPort {
	var b [2]byte
	rand.Read(b[:])
	return netip.AddrPortFrom(src, 49152+binary.BigEndian.Uint16(b[:])%16384)
}

func (t *deviceTable) setVisitor(u *deviceUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.visitor = u
}

// findVisitor finds the device of another client to this machine.
func (t *deviceTable) findVisitor(src netip.Addr) *deviceUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.used {
		at := u.dev.Addr().Addr()
		loopback := at.Is4() && at.IsLoopback() && src.Is4() && src.IsLoopback()
		if !u.visitor || at != src && !loopback {
			continue
		}
		if u.idle != nil && !u.idle.Reset(linger) {
			continue // is being closed
		}
		t.visitor = u
		return u
	}
	return nil
}

// takeVisitor is what Source meant by an address and the usual UDP port. The
// manager asks for it right after Source; any other Acquire forgets it.
func (t *deviceTable) takeVisitor(local netip.AddrPort) *deviceUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.visitor
	t.visitor = nil
	if u != nil && local == netip.AddrPortFrom(u.dev.Addr().Addr(), verbs.Port) {
		return u
	}
	return nil
}
