package subnet

import (
	"encoding/binary"
	"time"

	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// A Load is test traffic: packets of one size from an adapter's port to a LID. The subnet
// itself sends them and takes them, beside what programs send.
type Load struct {
	From    topology.End
	DLID    uint16
	SL      uint8
	Size    int           // bytes of payload, a multiple of four
	Packets int           // how many
	Every   time.Duration // between two packets; 0 sends as fast as the lane takes them
}

// A LoadState is a load with the packets that were sent and that have arrived.
type LoadState struct {
	Load
	Sent, Arrived int
}

// A load is a load that runs.
type load struct {
	LoadState
	frame   []byte
	refused bool // the lane was full: Writable continues
}

// loadOpcode is that of test traffic, one of those that IBTA 9.2.1 leaves to manufacturers.
// No transport has it, so no program takes these packets for its own.
const loadOpcode = 0xc0

// loadIndex is where a packet of test traffic has the number of its load, from the BTH on.
const loadIndex = ib.BTHLen + ib.DETHLen

// LeastLoad is the smallest size of a load's packets.
const LeastLoad = 4

// Generate starts a load. Packets that do not fit the path are dropped on it, like others.
func (s *Subnet) Generate(now time.Duration, l Load) {
	s.now = max(s.now, now)
	x := &load{LoadState: LoadState{Load: l}}
	slid, _ := s.members[l.From.Node].agent.LID(l.From.Port)
	payload := make([]byte, max(l.Size, LeastLoad))
	binary.BigEndian.PutUint32(payload, s.loadBase+uint32(len(s.loads)))
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: ib.DestQPNMask}, Payload: payload}
	f := ib.AppendNative(nil, ib.LRH{SL: l.SL, Next: ib.LocalBTH, DLID: ib.LID(l.DLID), SLID: ib.LID(slid)}, nil, &p)
	f[ib.LRHLen] = loadOpcode
	end := len(f) - ib.VCRCLen
	ib.PutICRC(f[end-ib.ICRCLen:], ib.NativeICRC(f[:end]))
	if ib.PutVCRC(f); s.config.Port.NoVCRC {
		clear(f[end:])
	}
	x.frame = f
	s.loads = append(s.loads, x)
	m := s.members[l.From.Node]
	m.loads = append(m.loads, x)
	s.pace.Push(s.now, x)
}

// Loads returns all loads since StopLoads.
func (s *Subnet) Loads() (list []LoadState) {
	for _, x := range s.loads {
		list = append(list, x.LoadState)
	}
	return list
}

// StopLoads ends all loads and forgets them.
func (s *Subnet) StopLoads() {
	for _, x := range s.loads {
		x.Packets = x.Sent
		s.members[x.From.Node].loads = nil
	}
	s.loadBase += uint32(len(s.loads))
	s.loads = nil
}

// feed sends the packets of a load that are due. With Every that is one.
func (s *Subnet) feed(x *load) {
	m := s.members[x.From.Node]
	for x.refused = false; x.Sent < x.Packets; {
		frame := append(s.pool.Buffer(len(x.frame))[:0], x.frame...)
		if !m.node.Send(s.now, x.From.Port, frame) {
			s.pool.Recycle(frame)
			x.refused = true
			return
		}
		x.Sent++
		if x.Every > 0 {
			if x.Sent < x.Packets {
				s.pace.Push(s.now+x.Every, x)
			}
			return
		}
	}
}

// feedLoads sends what is due of all loads.
func (s *Subnet) feedLoads() {
	for {
		x, _, ok := s.pace.Pop(s.now)
		if !ok {
			return
		}
		s.feed(x)
		s.schedule(s.members[x.From.Node])
	}
}

// writable continues the loads of a port that takes packets again.
func (s *Subnet) writable(m *member, port int) {
	for _, x := range m.loads {
		if x.refused && x.From.Port == port {
			s.feed(x)
		}
	}
}

// arrived counts a packet of test traffic, and reports whether it is one.
func (s *Subnet) arrived(body []byte) bool {
	if len(body) < loadIndex+4 || body[0] != loadOpcode {
		return false
	}
	if i := binary.BigEndian.Uint32(body[loadIndex:]) - s.loadBase; i < uint32(len(s.loads)) {
		s.loads[i].Arrived++
	}
	return true
}

// Stall makes an adapter take no packets of a set of service levels except management packets,
// until it is called without these levels. The packets stay in the buffers of their lanes.
func (n *nodes) Stall(now time.Duration, node int, levels uint16) {
	n.now = max(n.now, now)
	m := n.members[node]
	m.stalled = levels
	for p := 1; !m.isSwitch && p < len(m.cables); p++ {
		m.node.Resume(n.now, p)
	}
	n.schedule(m)
}

// Stalled returns the service levels of which an adapter takes no packets.
func (n *nodes) Stalled(node int) uint16 { return n.members[node].stalled }
