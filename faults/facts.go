package faults

import (
	"net/netip"

	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/iwarp"
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
	stream   bool            // an FPDU of iWARP
	rdmap    iwarp.Opcode    // its opcode
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

// ofRDMAP are the opcodes of RC that stand for those of iWARP. A Terminate has none.
var ofRDMAP = [iwarp.Opcodes]ib.Opcode{
	iwarp.Write: ib.RCWriteOnly, iwarp.ReadRequest: ib.RCReadRequest, iwarp.ReadResponse: ib.RCReadResponseOnly,
	iwarp.Send: ib.RCSendOnly, iwarp.SendInvalidate: ib.RCSendOnly, iwarp.SendSE: ib.RCSendOnly,
	iwarp.SendSEInvalidate: ib.RCSendOnly, iwarp.Terminate: noOpcode, iwarp.Immediate: ib.RCSendOnly,
	iwarp.ImmediateSE: ib.RCSendOnly, iwarp.AtomicRequest: ib.RCFetchAdd, iwarp.AtomicResponse: ib.RCAtomicAcknowledge,
}

const noOpcode = 0xff

// ReadFPDU reads what an FPDU of iWARP tells, from its length to its CRC, without markers.
func (f *PacketFacts) ReadFPDU(b []byte) {
	f.stream, f.opcode, f.psn, f.dest, f.syndrome, f.message, f.Size = true, noOpcode, 0, 0, 0, 0, 0
	var s iwarp.Segment
	if f.rdmap = iwarp.Opcodes; !s.ParsePrefix(b) || s.Opcode >= iwarp.Opcodes {
		return
	}
	f.rdmap, f.opcode, f.Size = s.Opcode, ofRDMAP[s.Opcode], len(PartOfFPDU(b, ""))
}

// PartOfFPDU returns the bytes of an FPDU without markers that a rule corrupts. The header begins behind the
// length, without which the receiver would wait for bytes that do not come.
func PartOfFPDU(b []byte, part string) []byte {
	var s iwarp.Segment
	if !s.ParsePrefix(b) {
		return nil
	}
	header, end := s.HeaderLen(), min(iwarp.LengthLen+int(s.Length), len(b))
	if i := s.Opcode.Info(); i != nil {
		if header = i.Fixed; i.Control {
			header = end
		}
	}
	if header = min(header, end); part == "header" {
		return b[iwarp.LengthLen:header]
	}
	return b[header:end]
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
