//go:build linux

package uapi

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// ParseAddr reads a sockaddr; family 0 is no address.
func ParseAddr(b []byte) (netip.AddrPort, error) {
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case 0:
		return netip.AddrPort{}, nil
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), nil
	case syscall.AF_INET6:
		a := netip.AddrFrom16([16]byte(b[8:24]))
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && a.IsLinkLocalUnicast() {
			a = a.WithZone(zoneName(scope))
		}
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	return netip.AddrPort{}, syscall.EAFNOSUPPORT
}

// PutAddr writes a sockaddr and returns its length.
func PutAddr(b []byte, a netip.AddrPort) uint16 {
	if !a.IsValid() && !a.Addr().IsValid() {
		return 0
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
	if a.Addr().Is4() {
		binary.NativeEndian.PutUint16(b, syscall.AF_INET)
		ip := a.Addr().As4()
		copy(b[4:8], ip[:])
		return 16
	}
	binary.NativeEndian.PutUint16(b, syscall.AF_INET6)
	ip := a.Addr().As16()
	copy(b[8:24], ip[:])
	binary.NativeEndian.PutUint32(b[24:28], ZoneIndex(a.Addr().Zone()))
	return 28
}

// zoneName returns the zone of an address for the index of an interface.
func zoneName(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return strconv.Itoa(int(index))
}

// ZoneIndex returns the index of an interface, or 0 if there is none.
func ZoneIndex(name string) uint32 {
	if name == "" {
		return 0
	}
	if i, err := net.InterfaceByName(name); err == nil {
		return uint32(i.Index)
	}
	return 0
}
