package faults

import (
	"net/netip"

	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// PacketFacts are what rules select packets by.
type PacketFacts struct {
	Received bool
	Peer     netip.Addr
	QPN      uint32 // the device's own queue pair
	Size     int    // bytes of payload

	opcode   ib.Opcode
	psn      uint32
	dest     uint32
	syndrome ib.Syndrome
	message  mad.AttributeID // of the connection manager, else 0
}

// Offsets in a datagram of management, which begins behind BTH and DETH.
const (
	madClass     = 1
	madAttribute = 16
	classCM      = 0x07
)

// Read reads what a packet tells, from BTH to ICRC.
func (f *PacketFacts) Read(b []byte) {
	f.opcode, f.psn, f.dest, f.syndrome, f.message, f.Size = 0xff, 0, 0, 0, 0, 0
	if len(b) < ib.BTHLen+ib.ICRCLen {
		return
	}
	var h ib.BTH
	h.Parse(b)
	f.opcode, f.psn, f.dest = h.Opcode, uint32(h.PSN), h.DestQPN
	i := h.Opcode.Info()
	if i == nil {
		return
	}
	body := b[min(i.Len, len(b)-ib.ICRCLen) : len(b)-ib.ICRCLen]
	f.Size = max(len(body)-int(h.Pad), 0)
	if i.Kind == ib.KindAcknowledge && len(b) > ib.BTHLen {
		f.syndrome = ib.Syndrome(b[ib.BTHLen])
	}
	if f.dest == managerQPN && i.Headers&ib.HasDETH != 0 && len(body) > madAttribute+1 && body[madClass] == classCM {
		f.message = mad.AttributeID(body[madAttribute])<<8 | mad.AttributeID(body[madAttribute+1])
	}
}

// Request reports whether the packet is a request, which a responder answers.
func (f *PacketFacts) Request() bool { return f.opcode.Info() != nil && request(f.opcode.Info()) }

// CompletionFacts are what rules select completions by.
type CompletionFacts struct {
	QPN    uint32
	Opcode uint8 // as ibv_wc_opcode: receives have 128 and more
	Status uint8 // as ibv_wc_status
	Size   int
}
