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

// This file decides whether a name can be believed. A user who may write to the directory
// can publish any address. The kernel knows which user has it in this network namespace: a
// RoCE v2 device receives on a UDP socket that is bound to its address, which no second user
// can bind, and a RoCE v1 device on a packet socket, which takes privilege.

// vouch returns why a name is not believed. Names of this process's own user are. Those of
// other users in this network namespace need a socket of that user at the address. In other
// namespaces the kernel does not say who has an address.
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
	// Link-local addresses of several links look alike here. Then one user must have all.
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

// holders returns the users of the sockets in this network namespace that receive what is
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

// tableAddress returns an address as the tables in /proc/net have it: words of 32 bits in
// network order, printed as numbers of this processor.
func tableAddress(a netip.AddrPort) string {
	var s strings.Builder
	for b := a.Addr().AsSlice(); len(b) > 0; b = b[4:] {
		fmt.Fprintf(&s, "%08X", binary.NativeEndian.Uint32(b))
	}
	fmt.Fprintf(&s, ":%04X", a.Port())
	return s.String()
}

// socketUsers returns the users of the sockets in a table of /proc/net that have a value in a
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
