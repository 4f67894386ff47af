//go:build linux

package umad

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/uapi"
)

// Management classes that package mad does not name (IBTA 13.4.4).
const (
	classDeviceAdmin = 0x10
	classBoot        = 0x12
	classVendorFirst = 0x30 // vendors' classes with an OUI
	classVendorLast  = 0x4f
)

// modifierResponse is the bit of a baseboard manager's attribute modifier that marks a
// response (IBTA 16.2).
const modifierResponse = 1

// Where a datagram has the header of multi-packet transfers (IBTA 13.6), and a vendor's
// class its OUI (IBTA 16.5).
const (
	transferFlags = 26 // its lowest bit: the datagram is of a transfer
	transferLen   = mad.HeaderLen + 12
	vendorOUI     = 37
)

// subnet reports whether a class belongs to queue pair 0.
func subnet(class uint8) bool { return class == mad.ClassLIDRouted || class == mad.ClassDirected }

func vendor(class uint8) bool { return class >= classVendorFirst && class <= classVendorLast }

// transfers reports whether datagrams of a class have the header of multi-packet transfers.
func transfers(class uint8) bool { return dataOffset(class) > mad.HeaderLen }

// dataOffset returns where the data of a class begins, behind its headers.
func dataOffset(class uint8) int {
	switch {
	case class == mad.ClassAdministration:
		return 56
	case class == mad.ClassDevice, class == classDeviceAdmin, class == classBoot:
		return 64
	case vendor(class):
		return 40
	}
	return mad.HeaderLen
}

// response reports whether a datagram answers another one (IBTA 13.4.5).
func response(h *mad.Header) bool {
	return h.Method&mad.ResponseBit != 0 || h.Method == mad.MethodTrapRepress ||
		h.Class == mad.ClassBaseboard && h.Modifier&modifierResponse != 0
}

// segment reports whether a datagram is of a multi-packet transfer.
func segment(class uint8, b *[mad.Len]byte) bool { return transfers(class) && b[transferFlags]&1 != 0 }

// addressOf returns the address of a header.
func addressOf(h *uapi.MADHeader) Address {
	a := Address{LID: binary.BigEndian.Uint16(h.LID[:]), SL: h.SL, PathBits: h.PathBits, PKeyIndex: h.PKeyIndex}
	if h.GRHPresent != 0 {
		a.Global, a.GIDIndex, a.HopLimit, a.TrafficClass, a.GID = true, h.GIDIndex, h.HopLimit, h.TrafficClass, h.GID
		a.FlowLabel = binary.BigEndian.Uint32(h.FlowLabel[:])
	}
	return a
}

// headerOf returns the header of a datagram that arrived.
func headerOf(m *MAD, id uint32) uapi.MADHeader {
	a := &m.Peer
	h := uapi.MADHeader{ID: id, SL: a.SL, PathBits: a.PathBits, PKeyIndex: a.PKeyIndex}
	binary.BigEndian.PutUint32(h.QPN[:], m.PeerQPN)
	binary.BigEndian.PutUint16(h.LID[:], a.LID)
	if a.Global {
		h.GRHPresent, h.GIDIndex, h.HopLimit, h.TrafficClass, h.GID = 1, a.GIDIndex, a.HopLimit, a.TrafficClass, a.GID
		binary.BigEndian.PutUint32(h.FlowLabel[:], a.FlowLabel)
	}
	return h
}
