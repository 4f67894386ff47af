//go:build linux

package ucm

import (
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/fabric/attach"
	hostpkg "softrdma/internal/host"
	"softrdma/internal/uverbs/device"
)

// host offers the server's devices to package cma. They belong to the server's caller
// and stay open, so that leases are not counted.
type host struct{ devices []*device.Device }

// Reach returns the device of the peer's own address, else the device of the address
// that the system's routing chooses, else the first device of the peer's family. Peers of
// RoCE v1 and of fabrics need no route of the system.
func (h host) Reach(dst netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	src, err := h.source(dst)
	if err != nil {
		return nil, fmt.Errorf("no route: %w", err)
	}
	return h.Acquire(src, o)
}

func (h host) source(dst netip.Addr) (netip.Addr, error) {
	dst = dst.Unmap()
	if h.on(dst, cmid.Any) != nil {
		return dst, nil
	}
	if d, found := h.onEthernet(dst); found {
		return d.Addr(), nil
	}
	src, why := hostpkg.Source(dst)
	if why == nil && h.on(src, cmid.Any) != nil {
		return src, nil
	}
	for _, d := range h.devices {
		a := d.Addr()
		if a.Is4() != dst.Is4() {
			continue
		}
		if why != nil && !speaks(d, cmid.InfiniBand) && !speaks(d, cmid.RoCEv1) {
			return a, why
		}
		return a, nil
	}
	return netip.Addr{}, fmt.Errorf("no device has an address of the family of %v: %w", dst, syscall.ENETUNREACH)
}

// onEthernet returns a device on the Ethernet fabric that has an address.
func (h host) onEthernet(dst netip.Addr) (*device.Device, bool) {
	return attach.Reaching(h.devices, func(d *device.Device) *attach.Port { return d.Ethernet }, dst)
}

// Routed implements cma.Host.
func (h host) Routed(dst netip.Addr) error {
	if h.on(dst, cmid.Any) != nil {
		return nil
	}
	if _, found := h.onEthernet(dst); found {
		return nil
	}
	_, err := hostpkg.Source(dst)
	return err
}

// PathMTU returns the path MTU that the system knows.
func (h host) PathMTU(dst netip.Addr, overhead int) int {
	if d, found := h.onEthernet(dst); found {
		return hostpkg.MTUFor(d.Ethernet.Info().Ethernet.MTU - overhead)
	}
	return hostpkg.PathMTU(dst, overhead)
}

// on returns the first device with an address and a protocol, or nil.
func (h host) on(a netip.Addr, p cmid.Protocol) *device.Device {
	a = a.Unmap()
	for _, d := range h.devices {
		if (d.Addr() == a || d.Addr().WithZone("") == a) && speaks(d, p) {
			return d
		}
	}
	return nil
}

// speaks reports whether a device speaks a protocol.
func speaks(d *device.Device, p cmid.Protocol) bool {
	switch p {
	case cmid.Any:
		return true
	case cmid.IWARP:
		return d.Adapter.IWARP()
	case cmid.InfiniBand:
		return d.Fabric != nil
	}
	return !d.Adapter.IWARP() && d.Fabric == nil && (d.Adapter.Local().Port() == cmid.RoCEv1Port) == (p == cmid.RoCEv1)
}

// meant returns the address that a program means to bind to. As in Linux, the loopback
// address stands for any address if no device has it.
func (h host) meant(a netip.AddrPort) netip.AddrPort {
	switch ip := a.Addr().Unmap(); {
	case h.on(ip, cmid.Any) != nil:
	case ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}):
		return netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port())
	case ip == netip.IPv6Loopback():
		return netip.AddrPortFrom(netip.IPv6Unspecified(), a.Port())
	}
	return a
}

// Acquire returns the device of an address.
func (h host) Acquire(local netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	if d := h.on(local, o.Protocol); d != nil {
		return lease{d}, nil
	}
	return nil, fmt.Errorf("no device has the address %v: %w", local, syscall.EADDRNOTAVAIL)
}

// A lease is a use of a device, which the server keeps open.
type lease struct{ dev *device.Device }

func (l lease) Device() *adapter.Device { return l.dev.Adapter }
func (l lease) Release()                {}

func (l lease) Fabric() cma.Fabric {
	if l.dev.Subnet == nil {
		return nil
	}
	return l.dev.Subnet
}

func (h host) Addresses() (list []netip.Addr, _ error) {
	for _, d := range h.devices {
		list = append(list, d.Addr())
	}
	return list, nil
}

// of returns the device of an adapter, or nil.
func (h host) of(a *adapter.Device) *device.Device {
	for _, d := range h.devices {
		if d.Adapter == a {
			return d
		}
	}
	return nil
}
