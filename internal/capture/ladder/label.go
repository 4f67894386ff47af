package ladder

import (
	"fmt"
	"strings"

	"softrdma/internal/capture"
	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// label says what a packet is, in few words.
func label(p *capture.Packet) (begin, end string) {
	if len(p.Data) < ib.BTHLen {
		return fmt.Sprintf("%d bytes", p.Length), ""
	}
	var s string
	var h mad.Header
	if m, x := mad.ParseHeader(p.Payload, &h); p.DestQPN == mad.GSIQPN && x.Reason == reason.None && m != nil {
		s = fmt.Sprintf("CM %v", h.Attribute)
	} else {
		s = packetLabel(p.Opcode, p.PSN, max(p.Run.Packets, 1), int(p.Run.Bytes))
	}
	return s, details(p)
}

// details is how a label ends.
func details(p *capture.Packet) (s string) {
	i := p.Opcode.Info()
	if i == nil {
		return s
	}
	switch h := i.Headers; {
	case h&ib.HasRETH != 0:
		s += fmt.Sprintf(" VA 0x%x R_Key 0x%x, %d B", p.RETH.Addr, p.RETH.RKey, p.RETH.Length)
	case h&ib.HasAtomicETH != 0:
		s += fmt.Sprintf(" VA 0x%x R_Key 0x%x", p.AtomicETH.Addr, p.AtomicETH.RKey)
	case h&ib.HasAETH != 0 && i.Kind != ib.KindReadResponse:
		s += fmt.Sprintf(" %v", p.AETH.Syndrome)
	case i.Payload && p.Run.Packets <= 1:
		s += fmt.Sprintf(", %d B", len(p.Payload))
	}
	if p.ECN() == 3 {
		s += " CE"
	}
	if p.ICRC == capture.Bad {
		s += " bad ICRC"
	}
	return s
}

// shortName returns the name of an opcode without the transport, which stands above the ladder.
func shortName(o ib.Opcode) string {
	return strings.TrimPrefix(o.String(), o.Transport().String()+" ")
}

// packetLabel is how the label of a packet, or of a run of them, begins.
func packetLabel(o ib.Opcode, at psn.PSN, packets, bytes int) string {
	s := fmt.Sprintf("%s PSN %v", shortName(o), at)
	if packets > 1 {
		s += fmt.Sprintf(", %d packets", packets)
		if bytes > 0 {
			s += fmt.Sprintf(", %d B", bytes)
		}
	}
	return s
}
