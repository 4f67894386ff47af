//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"softrdma/internal/steering"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// OpenLanes opens n links of one local address. Packets for queue pair q arrive at link q
// modulo n (steering.LaneOf), except that packets joined to a batch on their way arrive at the
// link of the first of them. The links share only their address and port.
//
// Their receiving sockets are a group by SO_REUSEPORT. Sockets of flows are not in it, because
// they have their own ports.
func OpenLanes(local netip.AddrPort, cfg Config, n int) ([]*Link, error) {
	links, err := openFirst(local, cfg, n, n > 1)
	if err == nil && n > 1 {
		err = steer(links[0].rx.fd, n)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(links))
	}
	return links, nil
}

// openFirst opens n links of an unused address. With shared, others may follow.
func openFirst(local netip.AddrPort, cfg Config, n int, shared bool) (links []*Link, err error) {
	first, err := Open(local, cfg)
	if err != nil {
		return nil, err
	}
	links = append(links, first)
	// Binding the first one without the option fails if the address is in use. With the
	// option, another device could join the group.
	if shared {
		err = shareable(first.rx.fd)
	}
	for err == nil && len(links) < n {
		var l *Link
		next := first.cfg
		next.ReceiveBuffer = cfg.ReceiveBuffer
		if l, err = open(first.local, next, true); err == nil {
			links = append(links, l)
		}
	}
	for _, l := range links {
		l.buffer.share(n)
	}
	return links, err
}

func closeAll(links []*Link) (err error) {
	for _, l := range links {
		err = errors.Join(err, l.Close())
	}
	return err
}

// shareable lets further sockets bind to a socket's address and port.
func shareable(fd int) error {
	return os.NewSyscallError("setsockopt SO_REUSEPORT", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
}

// steer makes the kernel choose among the sockets that share a port, numbered in the order in
// which they were bound.
func steer(fd, n int) error {
	code, err := bpf.Assemble(selector(n))
	if err != nil {
		return fmt.Errorf("steer packets to %d lanes: %w", n, err)
	}
	filter := make([]unix.SockFilter, len(code))
	for i, c := range code {
		filter[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, no := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
		uintptr(unsafe.Pointer(&p)), unsafe.Sizeof(p), 0)
	if no != 0 {
		return fmt.Errorf("steer packets to %d lanes: %w", n, os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF", no))
	}
	return nil
}

// selector returns the program, which the kernel runs on the UDP payload.
func selector(n int) []bpf.Instruction {
	return append(steering.LoadLane(0, n), bpf.RetA{})
}
