package ib

import "fmt"

// String returns the packet on one line: opcode, QPN, PSN, the extended headers
// that the opcode has, payload length, and the bits that are set.
func (p *Packet) String() string { return string(p.AppendLine(nil)) }

// AppendLine appends what String returns.
func (p *Packet) AppendLine(b []byte) []byte {
	b = p.AppendHeaders(b, ^Headers(0))
	i := p.Opcode.Info()
	if i == nil {
		return b
	}
	if i.Payload {
		b = fmt.Appendf(b, " len %d", len(p.Payload))
	}
	return p.BTH.appendBits(b)
}

// AppendHeaders appends what the BTH and the extended headers among of say, without the payload's length
// and unusual bits.
func (p *Packet) AppendHeaders(b []byte, of Headers) []byte {
	b = fmt.Appendf(b, "%v QP 0x%06x PSN %v", p.Opcode, p.DestQPN, p.PSN)
	if i := p.Opcode.Info(); i != nil {
		b = p.appendExtended(b, i.Headers&of)
	}
	return b
}

func (p *Packet) appendExtended(b []byte, h Headers) []byte {
	if h&HasXRCETH != 0 {
		b = fmt.Appendf(b, " SRQ 0x%06x", p.XRCETH.SRQN)
	}
	if h&HasDETH != 0 {
		b = fmt.Appendf(b, " src 0x%06x Q_Key 0x%x", p.DETH.SrcQPN, p.DETH.QKey)
	}
	if h&HasFETH != 0 {
		b = fmt.Appendf(b, " %v of the %v", p.FETH.Placement, p.FETH.Selectivity)
	}
	if h&HasRETH != 0 {
		b = fmt.Appendf(b, " VA 0x%x R_Key 0x%x DMA len %d", p.RETH.Addr, p.RETH.RKey, p.RETH.Length)
	}
	if h&HasAtomicETH != 0 {
		a := &p.AtomicETH
		b = fmt.Appendf(b, " VA 0x%x R_Key 0x%x swap/add 0x%x", a.Addr, a.RKey, a.SwapAdd)
		if p.Opcode.Info().Kind == KindCompareSwap {
			b = fmt.Appendf(b, " compare 0x%x", a.Compare)
		}
	}
	if h&HasAETH != 0 {
		b = fmt.Appendf(b, " %v MSN %d", p.AETH.Syndrome, uint32(p.AETH.MSN))
	}
	if h&HasAtomicAckETH != 0 {
		b = fmt.Appendf(b, " original 0x%x", p.AtomicAck)
	}
	if h&HasImmDt != 0 {
		b = fmt.Appendf(b, " imm 0x%x", p.Imm)
	}
	if h&HasIETH != 0 {
		b = fmt.Appendf(b, " invalidate 0x%x", p.IETH)
	}
	return b
}

// appendBits names what differs from the usual: P_Key 0xffff, version 0, no
// padding and no bit set.
func (h *BTH) appendBits(b []byte) []byte {
	if h.Pad != 0 {
		b = fmt.Appendf(b, " pad %d", h.Pad)
	}
	if h.PKey != 0xffff {
		b = fmt.Appendf(b, " P_Key 0x%04x", h.PKey)
	}
	if h.Version != 0 {
		b = fmt.Appendf(b, " version %d", h.Version)
	}
	for _, f := range [...]struct {
		set  bool
		name string
	}{{h.AckReq, " ackreq"}, {h.Solicited, " solicited"}, {h.FECN, " FECN"}, {h.BECN, " BECN"}} {
		if f.set {
			b = append(b, f.name...)
		}
	}
	return b
}

// String returns the names of the placements, joined by bars.
func (p Placement) String() string {
	switch p {
	case 0:
		return "none"
	case GlobalVisibility:
		return "GLOBAL"
	case Persistence:
		return "PERSISTENT"
	case GlobalVisibility | Persistence:
		return "GLOBAL|PERSISTENT"
	}
	return fmt.Sprintf("placement %#x", uint8(p))
}

// String names what is flushed.
func (s Selectivity) String() string {
	switch s {
	case FlushRange:
		return "range"
	case FlushRegion:
		return "region"
	}
	return fmt.Sprintf("selectivity %d", uint8(s))
}

// String names the fault.
func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

var faultNames = [...]string{
	OK:             "no fault",
	Short:          "fewer bytes than the headers and the ICRC need",
	BadOpcode:      "unknown opcode",
	BadVersion:     "transport header version other than 0",
	BadPad:         "padding longer than the payload, or a length that is no multiple of 4",
	ExtraPayload:   "payload behind an opcode that has none",
	BadLinkVersion: "link version other than 0",
	BadLength:      "packet length in the LRH or GRH wrong",
	BadGRH:         "GRH of a version other than 6, or not followed by a BTH",
}
