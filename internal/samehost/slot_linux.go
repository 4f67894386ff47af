package samehost

import (
	"net/netip"
	"strings"

	"softrdma/internal/steering"
)

// placeOf returns the place of a queue pair's peer. The host must not be closed meanwhile.
func (h *Host) placeOf(peer netip.AddrPort, qpn uint32) place {
	n := name{kind: h.name.kind, local: h.inZone(peer)}
	n.slot = h.slotAt(n, qpn)
	return n.place()
}

// RemoveSlot removes the name that a device on this address has left in the directory. The
// device has ended, but its process may still be closing its socket.
func (h *Host) RemoveSlot(first, of int) {
	if !h.hold() {
		return
	}
	defer h.running.Done()
	texts, _ := h.dir.list() // if it fails, the next device on the address removes them
	for _, s := range texts {
		n, ok := parseName(strings.TrimPrefix(s, ".")) // see listen
		if ok && n.space == h.name.space && n.place() == (place{h.cfg.Local, slotOf(first, of)}) {
			h.dir.remove(s)
		}
	}
}

// slotAt returns the slot of the published device that a queue pair of an address belongs to,
// or the first slot if there is none. Queue pair 0 stands for any device: slotAt then prefers
// the first slot and returns another only if no device has the first. It believes the same
// names as find.
func (h *Host) slotAt(of name, qpn uint32) (found slot) {
	texts, err := h.dir.list()
	if err != nil {
		return slot{}
	}
	whole := of.prefix()
	prefix := strings.TrimSuffix(whole, "_") + "+"
	for _, s := range texts {
		first := qpn == 0 && strings.HasPrefix(s, whole)
		if !first && !strings.HasPrefix(s, prefix) {
			continue
		}
		n, ok := parseName(s)
		if !ok || !first && qpn != 0 && steering.LaneOf(qpn, n.slot.of) != n.slot.first {
			continue
		}
		if e, ok := h.dir.entry(n); !ok || h.vouch(e) != nil {
			continue
		}
		if first {
			return slot{}
		}
		found = n.slot
	}
	return found
}
