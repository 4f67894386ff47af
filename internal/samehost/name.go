package samehost

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// A space identifies a network namespace: the device and inode number of
// /proc/self/ns/net.
type space struct{ dev, ino uint64 }

// A name is the name of a device's socket in the directory:
//
//	rocev2_10.0.0.1_4791_4-4026531840_dkxvm5azpy3k
//
// It contains the kind of frames, the address, the port, the network namespace, and the time
// when the device was opened. No name is used twice, so removing one never removes the name of
// another device. On an address that programs share, the port is followed by the first lane
// and the number of lanes, as in 4791+7+256, unless the first lane is 0.
type name struct {
	kind  string // as in the text
	local netip.AddrPort
	slot  slot
	space space
	since uint64 // nanoseconds since 1970
}

// kindText returns the notation of a kind of frames in names.
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

// A slot identifies a device on an address that programs share: first is its first lane, and
// of is the number of lanes of the address. It is zero for the device with lane 0.
type slot struct{ first, of int }

// slotOf returns the slot of a device.
func slotOf(first, of int) slot {
	if first == 0 {
		return slot{}
	}
	return slot{first, of}
}

func (s slot) String() string {
	if s.first == 0 {
		return ""
	}
	return fmt.Sprintf("+%d+%d", s.first, s.of)
}

// parseSlot parses what String returns, without the leading +.
func parseSlot(text string) (s slot, ok bool) {
	first, of, ok := strings.Cut(text, "+")
	if !ok {
		return s, text == ""
	}
	var err, err2 error
	s.first, err = strconv.Atoi(first)
	s.of, err2 = strconv.Atoi(of)
	return s, err == nil && err2 == nil && s.first > 0 && s.first < s.of && s.of <= maxOf
}

func (n name) String() string {
	return n.prefix() + fmt.Sprintf("%x-%d_%s", n.space.dev, n.space.ino, strconv.FormatUint(n.since, 36))
}

// prefix returns the common prefix of the names of one device address.
func (n name) prefix() string {
	return fmt.Sprintf("%s_%v_%d%v_", n.kind, n.local.Addr(), n.local.Port(), n.slot)
}

// parseName parses a name in the directory. It accepts only texts that String returns.
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
	digits, slot, _ := strings.Cut(parts[2], "+")
	port, err := strconv.ParseUint(digits, 10, 16)
	if n.slot, ok = parseSlot(slot); err != nil || !ok {
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
	if strings.ContainsFunc(addr.Zone(), unicode.IsControl) { // names are printed
		return n, false
	}
	n.kind, n.local = parts[0], netip.AddrPortFrom(addr, uint16(port))
	return n, n.kind == kindText(n.kind) && n.String() == s
}

// same reports whether two names have the same device address, in any namespaces.
func (n name) same(o name) bool { return n.kind == o.kind && n.local == o.local && n.slot == o.slot }

// place returns the device address of the name.
func (n name) place() place { return place{n.local, n.slot} }

// A place is a device address. Devices that share an address have different slots.
type place struct {
	addr netip.AddrPort
	slot slot
}

// isName reports whether a file name is a device's name.
func isName(s string) bool {
	_, ok := parseName(s)
	return ok
}
