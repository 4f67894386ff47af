package hosts

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/machine"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A packet is a packet on its way. Messages travel without their content; acknowledges with ranges
// and other packets that speak of the connection have it.
type packet struct {
	ib.Packet
	to      *end
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

// A packets is memory for packets. Their numbers, from 1 on, are the cookies of frames.
type packets struct {
	slabs [][]packet
	free  []uint32
}

const slab = 256

func (s *packets) at(number uint64) *packet {
	i := number - 1
	return &s.slabs[i/slab][i%slab]
}

func (s *packets) take(out *machine.Out, to *end) (number uint64) {
	if len(s.free) == 0 {
		first := uint32(len(s.slabs)*slab + 1)
		s.slabs = append(s.slabs, make([]packet, slab))
		for i := range uint32(slab) {
			s.free = append(s.free, first+slab-1-i)
		}
	}
	number = uint64(s.free[len(s.free)-1])
	s.free = s.free[:len(s.free)-1]
	p := s.at(number)
	p.Packet, p.to, p.length = out.Packet, to, int32(out.Len)
	p.Pad = ib.PadLen(out.Len)
	if p.says = own(out.Opcode); p.says {
		p.content = p.content[:0]
		for _, b := range out.Pieces {
			p.content = append(p.content, b...)
		}
	}
	return number
}

// telemetry returns the room of a packet for what switches say.
func (s *packets) telemetry(number uint64) *dcb.Telemetry {
	p := s.at(number)
	if p.tells == nil {
		p.tells = new(dcb.Telemetry)
	}
	p.tells.Count = 0
	return p.tells
}

func (s *packets) put(number uint64) { s.free = append(s.free, uint32(number)) }

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
