package adapter_test

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"softrdma/internal/adapter"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/steering"
	"softrdma/internal/wire/ib"
)

// The layout of a ring as the hostile peer knows it (link/hostmem, area.go).
const (
	ringHead    = 4096
	ringCopying = ringHead + 8
	ringArmed   = ringHead + 128
	ringICRC    = ringHead + 136
	ringWake    = ringHead + 256
	ringRevoked = ringHead + 264
	ringSlots   = ringHead + 4096
	slotSize    = 128
	slotCount   = 1024
	arenaSize   = 1 << 20

	formInSlot  = 0
	formInArena = 2
	formByRef   = 4
)

// A liar is a peer on the same host that speaks the format of the rings and lies in it. It
// has the place of x.a: the victim's queue pairs are connected to it. Another connection of
// the victim, to an honest peer, must not notice.
type liar struct {
	x       *target
	honest  *side // with a connection to
	partner *side // the victim

	channel  *hostmem.Channel
	in, out  []byte // the areas to the victim, and from it
	senders  []*hostmem.Sender
	segments map[uint32][]byte
	memory   []byte        // what segment 7 begins with
	during   func()        // called while the victim copies a payload
	closed   chan struct{} // the victim has ended the channel
	once     sync.Once

	secret  []byte // registered by the victim, with no right for a peer
	regions []*memory.Region
}

const liarPort = 0xc001

func newLiar(t testing.TB) *liar {
	x := newTarget(t)
	l := &liar{
		x: x, honest: newSide(t, x.b.Net, "10.0.0.3:4791", qp.RC, simnet.LinkConfig{}, adapter.Config{}), partner: new(side),
		segments: map[uint32][]byte{7: make([]byte, 8192)}, memory: make([]byte, 4096), closed: make(chan struct{}),
		secret: make([]byte, 4096),
	}
	for i := range l.memory {
		l.memory[i] = byte(i*3 + i>>8)
	}
	copy(l.segments[7], l.memory)
	region, err := x.b.PD.Register(l.secret, 0x900000, qp.LocalWrite)
	must(t, err)
	l.regions = []*memory.Region{region, x.b.mr}
	l.connectHonest(t)
	l.attach(t)
	return l
}

// connectHonest connects the victim and the honest peer, through memory.
func (l *liar) connectHonest(t testing.TB) {
	v := l.x.b
	*l.partner = side{Host: v.Host, mem: make([]byte, regionLen)}
	var err error
	l.partner.cq, err = v.Dev.CreateCQ(64, nil)
	must(t, err)
	l.partner.qp, err = v.PD.CreateQP(&adapter.QPConfig{
		Type: qp.RC, SendCQ: l.partner.cq, RecvCQ: l.partner.cq, SendDepth: 15, SendSGE: 2, RecvDepth: 15, RecvSGE: 2, Inline: 64,
	})
	must(t, err)
	l.partner.mr, err = v.PD.RegisterSegment(l.partner.mem, 0x500000, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead, rig.Segment(l.partner.mem))
	must(t, err)
	l.regions = append(l.regions, l.partner.mr)
	_, err = rig.Join(l.honest.Host, v.Host, rig.BondConfig{Offer: true})
	must(t, err)
	must(t, rig.Connect(l.honest.qp, l.partner.qp, rig.Options{}))
}

// attach gives the victim a channel to the liar.
func (l *liar) attach(t testing.TB) {
	size := hostmem.AreaSize(1, *lanes)
	l.in, l.out = make([]byte, size), make([]byte, hostmem.AreaSize(*lanes, 1))
	area := hostmem.NewArea(l.in, 1, *lanes)
	in, err := hostmem.OpenArea(l.in, 1, *lanes)
	must(t, err)
	for k := range *lanes {
		l.senders = append(l.senders, area.Sender(0, k))
	}
	l.channel = &hostmem.Channel{
		Peer: l.x.a.Link.Local(), Out: hostmem.NewArea(l.out, *lanes, 1), In: in, Lanes: 1, Far: l,
	}
	l.x.b.Dev.AttachHost(l.channel)
}

// Ring implements hostmem.Far, as do the methods that follow.
func (l *liar) Ring(int) {}

// Segment is a moment in which the liar can change what the victim has read already.
func (l *liar) Segment(id uint32) []byte {
	if f := l.during; f != nil {
		l.during = nil
		f()
	}
	return l.segments[id]
}

func (l *liar) Offer(*memory.Segment) {}
func (l *liar) Offered(uint32) bool   { return true } // whatever the victim asks
func (l *liar) Withdraw(uint32)       {}
func (l *liar) Close() {
	l.once.Do(func() { close(l.closed) })
}

// word is a word of an area.
func word(area []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&area[at : at+8][0]))
}

// word is a word of the area to the victim.
func (l *liar) word(at int) *atomic.Uint64 { return word(l.in, at) }

// counted are the reasons whose counters differ, and by how much.
func counted(before, after [reason.Count]uint64) map[reason.Reason]uint64 {
	m := make(map[reason.Reason]uint64)
	for i := range after {
		if n := after[i] - before[i]; n != 0 {
			m[reason.Reason(i)] = n
		}
	}
	return m
}

// slot writes a slot that no Sender would write: the number of the message, and the four
// words that say what it is.
func (l *liar) slot(n uint64, form uint8, header int, length uint32, place, segment uint64) {
	at := ringSlots + int(n%slotCount)*slotSize
	l.word(at + 8).Store(uint64(length) | liarPort<<32)
	l.word(at + 16).Store(place)
	l.word(at + 24).Store(segment)
	l.word(at).Store(uint64(uint32(n/slotCount)+1) | uint64(uint8(header))<<32 | uint64(form)<<40)
}

// header is what a message to one of the victim's queue pairs begins with.
func (l *liar) header(i int, op ib.Opcode, p psn.PSN, n int) *ib.Packet {
	b := l.x.b
	return &ib.Packet{
		BTH:  ib.BTH{Opcode: op, PKey: partition.Default, DestQPN: l.x.qps[i][1].QPN, PSN: p, AckReq: true, Pad: ib.PadLen(n)},
		DETH: ib.DETH{QKey: 0x11, SrcQPN: 0x55}, RETH: ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: uint32(n)},
	}
}

func (l *liar) head(train int) *hostmem.Head {
	return &hostmem.Head{HopLimit: 64, Port: liarPort, Train: uint16(train)}
}

// copy sends a message with its payload in the ring.
func (l *liar) copy(h *hostmem.Head, p *ib.Packet, payload []byte) {
	l.sender(p).Copy(h, p.Append(nil)[:p.HeaderLen()], [][]byte{payload}, len(payload))
	l.x.b.Dev.Progress()
}

// refer sends a message that refers to n bytes of payload.
func (l *liar) refer(h *hostmem.Head, p *ib.Packet, r hostmem.Ref, n int) {
	l.sender(p).Refer(h, p.Append(nil)[:p.HeaderLen()], r, n)
	l.x.b.Dev.Progress()
}

func (l *liar) sender(p *ib.Packet) *hostmem.Sender {
	return l.senders[steering.LaneOf(p.DestQPN, *lanes)]
}

// harmed fails if anything but the liar's own connections suffers.
func (l *liar) harmed(t testing.TB) {
	t.Helper()
	l.x.b.Dev.Progress()
	for _, e := range l.x.b.Events() {
		if q, _ := e.Element.(*adapter.QP); q == nil || q == l.partner.qp {
			t.Errorf("event %+v", e)
		}
	}
	if slices.ContainsFunc(l.secret, func(b byte) bool { return b != 0 }) {
		t.Error("the liar wrote into memory that it has no right to")
	}
	sent, _ := l.honest.Link.Stats()
	exchange(t, l.honest, l.partner, 3000)
	exchange(t, l.partner, l.honest, 3000)
	exchange(t, l.honest, l.partner, 20000)
	if now, _ := l.honest.Link.Stats(); now.Packets != sent.Packets {
		t.Errorf("%d packets of the honest connection took the network", now.Packets-sent.Packets)
	}
}

// ended reports whether the victim has ended the channel.
func (l *liar) ended(t testing.TB, want bool) {
	t.Helper()
	limit := 20 * time.Millisecond // for what must not happen
	if want {
		limit = time.Minute
	}
	select {
	case <-l.closed:
		if !want {
			t.Error("the victim ended the channel")
		}
	case <-time.After(limit):
		if want {
			t.Error("the channel goes on")
		}
	}
}

// leave takes the liar away. Its place can be taken again, and the victim closes without
// anything left.
func (l *liar) leave(t testing.TB) {
	t.Helper()
	v := l.x.b
	v.Dev.DetachHost(l.channel)
	clear(l.in) // no lane may use the areas any more
	clear(l.out)
	l.x.again(t, true)
	must(t, l.x.qps[2][1].DetachMulticast(netip.MustParseAddr("239.0.0.1")))
	for _, q := range []*adapter.QP{l.partner.qp, v.qp, l.x.qps[0][1], l.x.qps[1][1], l.x.qps[2][1]} {
		must(t, q.Destroy())
	}
	must(t, errors.Join(l.partner.cq.Destroy(), v.cq.Destroy()))
	for _, r := range l.regions {
		must(t, v.PD.Deregister(r))
	}
	must(t, v.Close())
}
