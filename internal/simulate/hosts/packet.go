package hosts

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/machine"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A packet is a packet on its way, with the headers that RC's WRITEs and their answers have. Messages
// travel without their content; acknowledges with ranges and other packets that speak of the connection
// have it.
type packet struct {
	to      *end
	bth     ib.BTH
	imm     uint32
	reth    ib.RETH
	aeth    ib.AETH
	length  int32
	says    bool           // content is the payload
	content []byte         // memory for it
	tells   *dcb.Telemetry // room for telemetry, if there ever was any
}

// zeros are the payload of all messages.
var zeros [4096]byte

func (p *packet) payload() []byte {
	if p.says {
		return p.content
	}
	return zeros[:p.length:p.length]
}

// packetOf returns the packet of a frame, which stays with the frame when it is used again.
func packetOf(f *dcb.Frame) *packet {
	if p, ok := f.Content.(*packet); ok {
		return p
	}
	p := new(packet)
	f.Content = p
	return p
}

// set makes p the packet that a queue pair sends to another one.
func (p *packet) set(out *machine.Out, to *end) {
	p.to, p.bth, p.imm, p.reth, p.aeth, p.length = to, out.BTH, out.Imm, out.RETH, out.AETH, int32(out.Len)
	p.bth.Pad = ib.PadLen(out.Len)
	if p.says = own(out.Opcode); p.says {
		p.content = p.content[:0]
		for _, b := range out.Pieces {
			p.content = append(p.content, b...)
		}
	}
}

// telemetry returns the room of a packet for what switches say.
func (p *packet) telemetry() *dcb.Telemetry {
	if p.tells == nil {
		p.tells = new(dcb.Telemetry)
	}
	p.tells.Count = 0
	return p.tells
}

// get makes in the packet as it arrives. Headers that no packet has stay empty.
func (p *packet) get(in *machine.In) {
	in.BTH, in.Imm, in.RETH, in.AETH, in.Payload = p.bth, p.imm, p.reth, p.aeth, p.payload()
}

// own reports whether a packet's payload is not that of a message.
func own(o ib.Opcode) bool {
	switch o.Info().Kind {
	case ib.KindSelectiveAck, ib.KindReason, ib.KindPathProbe, ib.KindCongestion, ib.KindTelemetry:
		return true
	}
	return false
}

const (
	ipv4Len = 20
	udpLen  = 8

	// around is what a frame of RoCE v2 has around the packet: headers, ICRC and check sequence.
	around = ethernet.HeaderLen + ipv4Len + udpLen + ib.ICRCLen + ethernet.CheckLen
)

// FrameLen returns the length of the frame of a packet with n bytes of payload.
func FrameLen(o ib.Opcode, n int) int {
	return max(around+o.Info().Len+n+int(ib.PadLen(n)), ethernet.MinLen+ethernet.CheckLen)
}
