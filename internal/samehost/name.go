package samehost

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A space identifies a network namespace: the device and inode number of
// /proc/self/ns/net.
type space struct{ dev, ino uint64 }

// A name is that of a device's socket in the directory:
//
//	rocev2_10.0.0.1_4791_4-4026531840_dkxvm5azpy3k
//
// It has the kind of frames, the address, the port, the network namespace, and when the
// device was opened. No name is used twice, so that removing one can never hit that of
// another device.
type name struct {
	kind  string // as in the name
	local netip.AddrPort
	space space
	since uint64 // nanoseconds since 1970
}

// kindText returns a kind of frames as it is in a name.
func kindText(kind string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return -1
	}, kind)
}

func (n name) String() string {
	return fmt.Sprintf("%s_%v_%d_%x-%d_%s", n.kind, n.local.Addr(), n.local.Port(), n.space.dev, n.space.ino, strconv.FormatUint(n.since, 36))
}

// parseName parses a name of the directory. Only texts that String returns are names.
func parseName(s string) (n name, ok bool) {
	parts := strings.Split(s, "_")
	if k := len(parts); k > 5 { // the name of an interface may have underscores
		parts = []string{parts[0], strings.Join(parts[1:k-3], "_"), parts[k-3], parts[k-2], parts[k-1]}
	}
	if len(parts) != 5 || len(s) > maxName || strings.Contains(s, "/") { // a zone may be any text
		return n, false
	}
	addr, err := netip.ParseAddr(parts[1])
	if err != nil {
		return n, false
	}
	port, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil {
		return n, false
	}
	dev, ino, _ := strings.Cut(parts[3], "-")
	if n.space.dev, err = strconv.ParseUint(dev, 16, 64); err != nil {
		return n, false
	}
	if n.space.ino, err = strconv.ParseUint(ino, 10, 64); err != nil {
		return n, false
	}
	if n.since, err = strconv.ParseUint(parts[4], 36, 64); err != nil {
		return n, false
	}
	n.kind, n.local = parts[0], netip.AddrPortFrom(addr, uint16(port))
	return n, n.kind == kindText(n.kind) && n.String() == s
}

// same reports whether two names are of one device address, in whatever namespaces.
func (n name) same(o name) bool { return n.kind == o.kind && n.local == o.local }

// isName reports whether a file's name is that of a device.
func isName(s string) bool {
	_, ok := parseName(s)
	return ok
}
