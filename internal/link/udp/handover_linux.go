//go:build linux && !softrdma_portable

package udp

import (
	"crypto/subtle"
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A batch that was joined on its way arrives at the program of its first packet, whether or
// not coalescing is on: the system chooses a socket for the whole batch. That program sends
// packets of other programs again, to the address itself, and the system chooses a socket for
// each. A trailer follows the packet:
//
//	 0  source address, IPv4 mapped into IPv6
//	16  source port
//	18  type of service
//	19  hop limit
//	20  key of the address
//
// Without the key any program on this host could send packets in the name of any peer.
const (
	trailerPort = 16
	trailerTOS  = 18
	trailerHops = 19
	trailerKey  = 20
	trailerLen  = trailerKey + len(Key{})
)

// HandOver passes a packet to the program that its queue pair belongs to.
func (l *Link) HandOver(packet []byte, src netip.AddrPort, tos, hops uint8) error {
	if l.cfg.Key == (Key{}) {
		return unix.EOPNOTSUPP
	}
	if !l.life.Enter() {
		return link.ErrClosed
	}
	defer l.life.Leave()
	t := &l.out.trailer
	a := src.Addr().As16()
	copy(t[:], a[:])
	binary.BigEndian.PutUint16(t[trailerPort:], src.Port())
	t[trailerTOS], t[trailerHops] = tos, hops
	copy(t[trailerKey:], l.cfg.Key[:])
	l.out.handed = append(append(l.out.handed[:0], packet...), t[:]...)
	return os.NewSyscallError("sendto", unix.Sendto(l.rx.fd, l.out.handed, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, sockaddr(l.local, l.zone)))
}

// takeOver restores a packet that was handed over to its state on arrival at this host.
func (l *Link) takeOver(rx *link.Rx) {
	n := len(rx.Data) - trailerLen
	if n < 0 || rx.Size != len(rx.Data) {
		return
	}
	t := rx.Data[n:]
	if subtle.ConstantTimeCompare(t[trailerKey:], l.cfg.Key[:]) != 1 {
		return
	}
	rx.Data, rx.Size, rx.HandedOver = rx.Data[:n:n], n, true
	rx.Src = netip.AddrPortFrom(netip.AddrFrom16([16]byte(t)).Unmap(), binary.BigEndian.Uint16(t[trailerPort:]))
	rx.TOS, rx.HopLimit = t[trailerTOS], t[trailerHops]
}
