package cma

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"softrdma/internal/cmid"
)

// Ephemeral ports, as in Linux's ip_local_port_range.
const (
	firstEphemeral = 32768
	lastEphemeral  = 60999
)

// A port is one port number in a port space.
type port struct {
	space  cmid.PortSpace
	number uint16
}

// takePort assigns a bound id its port: the one that it asked for, or an ephemeral
// one. Every port is allowed, because privileged ports protect nothing inside
// one process.
func (m *Manager) takePort(id *ID) error {
	if id.local.Port() == 0 {
		return m.drawPort(id)
	}
	p := port{id.space, id.local.Port()}
	if err := m.checkPort(p, id, id.option.reuse); err != nil {
		return err
	}
	m.own(p, id)
	id.ephemeral = false
	return nil
}

func (m *Manager) own(p port, id *ID) {
	id.local = netip.AddrPortFrom(id.local.Addr(), p.number)
	id.port = p
	m.ports[p] = append(m.ports[p], id)
}

// dropPort ends takePort.
func (m *Manager) dropPort(id *ID) {
	if id.port == (port{}) {
		return
	}
	rest := slices.DeleteFunc(m.ports[id.port], func(x *ID) bool { return x == id })
	if len(rest) == 0 {
		delete(m.ports, id.port)
	} else {
		m.ports[id.port] = rest
	}
	id.port = port{}
}

// checkPort reports whether an id may use a port, or listen on its port, given the
// other users of the port.
func (m *Manager) checkPort(p port, id *ID, reuse bool) error {
	for _, x := range m.ports[p] {
		if x == id || reuse && x.option.reuse {
			continue
		}
		a, b := id.local.Addr(), x.local.Addr()
		if id.option.afOnly && x.option.afOnly && a.Is4() != b.Is4() {
			continue
		}
		switch {
		case a.IsUnspecified() || b.IsUnspecified():
			return &cmid.PortError{Space: id.space, Addr: netip.AddrPortFrom(a, p.number), Owner: x.local, Err: cmid.ErrAddrNotAvail}
		case a == b:
			return &cmid.PortError{Space: id.space, Addr: netip.AddrPortFrom(a, p.number), Owner: x.local, Err: cmid.ErrAddrInUse}
		}
	}
	return nil
}

// drawPort assigns an ephemeral port: an unused one, or one whose users have
// another address or peer port.
func (m *Manager) drawPort(id *ID) error {
	first, last := m.cfg.FirstPort, m.cfg.LastPort
	if first == 0 || last < first {
		first, last = firstEphemeral, lastEphemeral
	}
	count := uint32(last-first) + 1
	start := m.random() % count
	for i := range count {
		p := port{id.space, first + uint16((start+i)%count)}
		// Do not choose the most recent port again at once, if there is another.
		if p == m.lastPort && count > 1 || !m.unique(p, id) {
			continue
		}
		m.lastPort = p
		m.own(p, id)
		id.ephemeral = true
		return nil
	}
	return &cmid.PortError{Space: id.space, Addr: id.local, Err: cmid.ErrAddrNotAvail}
}

func (m *Manager) unique(p port, id *ID) bool {
	differ := func(a, b netip.Addr) bool {
		return a.IsValid() && b.IsValid() && !a.IsUnspecified() && !b.IsUnspecified() && a != b
	}
	for _, x := range m.ports[p] {
		mine, other := id.remote.Port(), x.remote.Port()
		if mine != 0 && other != 0 && mine != other ||
			differ(id.local.Addr(), x.local.Addr()) || differ(id.remote.Addr(), x.remote.Addr()) {
			continue
		}
		return false
	}
	return true
}

func (m *Manager) random() uint32 {
	if m.cfg.Random != nil {
		return m.cfg.Random()
	}
	var b [4]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return binary.LittleEndian.Uint32(b[:])
}
