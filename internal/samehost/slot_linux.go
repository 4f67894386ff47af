package samehost

import (
	"net/netip"
	"strings"

	"softrdma/internal/frame"
)

// placeOf returns where the peer of a queue pair is. The host does not close meanwhile.
func (h *Host) placeOf(peer netip.AddrPort, qpn uint32) place {
	n := name{kind: h.name.kind, local: h.inZone(peer)}
	n.slot = h.dir.slotAt(n, qpn)
	return n.place()
}

// RemoveSlot removes what a device on this address has left in the directory. The device has
// ended: its process may still be closing its socket.
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

// slotAt returns the slot of an address that a queue pair belongs to: that of a device which
// is published there, or the first.
func (d *directory) slotAt(of name, qpn uint32) slot {
	texts, err := d.list()
	if err != nil {
		return slot{}
	}
	prefix := strings.TrimSuffix(of.prefix(), "_") + "+"
	for _, s := range texts {
		if !strings.HasPrefix(s, prefix) {
			continue
		}
		if n, ok := parseName(s); ok && frame.LaneOf(qpn, n.slot.of) == n.slot.first {
			return n.slot
		}
	}
	return slot{}
}
