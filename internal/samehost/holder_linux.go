package samehost

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"softrdma/internal/reason"
)

// This file decides whether to believe a name. A user who may write to the directory can
// publish any address. The kernel knows which user has an address in this network namespace: a
// RoCE v2 device receives on a UDP socket bound to it, which a second user cannot bind, and a
// RoCE v1 device on a packet socket, which needs privileges.

// vouch returns the reason why a name is not believed, or nil. Names of this process's own
// user are believed. Names of other users in this network namespace need a socket of that user
// at the address. The kernel does not tell which process has an address in another namespace.
func (h *Host) vouch(e entry) error {
	if err := h.users.check(e.uid); err != nil {
		return err
	}
	if h.users.same(e.uid) || e.space != h.name.space {
		return nil
	}
	sockets, others := 0, 0
	holders, err := holders(e.kind, e.local)
	if err != nil {
		return failure(reason.HostResources, 0, err)
	}
	for _, uid := range holders {
		if uid == e.uid && h.users.known(uid) {
			sockets++
		} else {
			others++
		}
	}
	// Equal link-local addresses on several links cannot be told apart here, so one user must
	// have them all.
	if sockets == 0 || others > 0 && e.kind == kindUDP {
		return reason.Detail{Reason: reason.HostAddress, Expected: uint64(e.uid), Found: uint64(others)}.Err()
	}
	return nil
}

// The kinds of frames, as in a name.
const (
	kindUDP      = "rocev2"
	kindEthernet = "rocev1"
)

// holders returns the owners of the sockets in this network namespace that receive packets
// sent to an address.
func holders(kind string, a netip.AddrPort) ([]uint32, error) {
	switch {
	case kind == kindEthernet:
		return socketUsers("/proc/self/net/packet", 3, "8915", 7) // the EtherType of RoCE v1
	case kind != kindUDP:
		return nil, nil
	case a.Addr().Is4():
		return socketUsers("/proc/self/net/udp", 1, tableAddress(a), 7)
	}
	return socketUsers("/proc/self/net/udp6", 1, tableAddress(a), 7)
}

// tableAddress returns an address in the notation of the tables in /proc/net: 32-bit words in
// network byte order, printed as native integers.
func tableAddress(a netip.AddrPort) string {
	var s strings.Builder
	for b := a.Addr().AsSlice(); len(b) > 0; b = b[4:] {
		fmt.Fprintf(&s, "%08X", binary.NativeEndian.Uint32(b))
	}
	fmt.Fprintf(&s, ":%04X", a.Port())
	return s.String()
}

// socketUsers returns the owners of the sockets in a table of /proc/net that have value in
// column.
func socketUsers(table string, column int, value string, user int) (users []uint32, err error) {
	b, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, value) {
			continue
		}
		f := strings.Fields(line)
		if len(f) <= max(column, user) || f[column] != value {
			continue
		}
		uid, err := strconv.ParseUint(f[user], 10, 32)
		if err != nil {
			return nil, err
		}
		users = append(users, uint32(uid))
	}
	return users, nil
}
