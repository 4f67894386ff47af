//go:build linux && !softrdma_portable

package udp

import (
	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// tooLong makes the error for packets that the system found too long. The path's MTU is the
// socket's if it is connected, else the interface's.
func (h *host) tooLong(f *flow, tx *link.Tx, err unix.Errno) error {
	level, option, headers := unix.IPPROTO_IP, unix.IP_MTU, 28
	if f.Dst.Addr().Is6() && !f.Dst.Addr().Is4In6() {
		level, option, headers = unix.IPPROTO_IPV6, unix.IPV6_MTU, 48
	}
	mtu, e := unix.GetsockoptInt(f.end.fd, level, option)
	if e != nil {
		if mtu, e = h.interfaceMTU(f.end.fd); e != nil {
			return err
		}
	}
	return &link.MTUError{MTU: mtu, Size: min(tx.Size, tx.Bytes) + headers, Err: err}
}

// interfaceMTU asks through a socket of the link, because the calling thread may be in another
// network namespace.
func (h *host) interfaceMTU(fd int) (int, error) {
	r, err := unix.NewIfreq("")
	if err != nil {
		return 0, err
	}
	r.SetUint32(uint32(h.cfg.Interface))
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, r); err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFMTU, r); err != nil {
		return 0, err
	}
	return int(r.Uint32()), nil
}

// Fragment implements link.Fragmenter. The receiving socket, which flows without a socket of their own use, fragments
// nothing. Over IPv6, where only the source fragments, Linux does so to what it knows to be the path's MTU.
func (l *Link) Fragment(p *link.Flow, m link.Fragmentation) {
	if !l.life.Enter() {
		return
	}
	defer l.life.Leave()
	f := l.flows.find(p)
	if f == nil || !f.own {
		return
	}
	discover, dont := unix.IP_PMTUDISC_DO, 1
	switch m {
	case link.Probed:
		discover = unix.IP_PMTUDISC_PROBE
	case link.Fragmented:
		discover, dont = unix.IP_PMTUDISC_DONT, 0
	}
	if l.local.Addr().Is4() {
		_ = unix.SetsockoptInt(f.end.fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, discover)
	} else { // the values of IPv6 are the same
		_ = unix.SetsockoptInt(f.end.fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, discover)
		_ = unix.SetsockoptInt(f.end.fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, dont)
	}
	// The kernel segments no batch whose packets it has to fragment.
	if f.Segments = l.segments(); m == link.Fragmented {
		f.Segments = 1
	}
}
