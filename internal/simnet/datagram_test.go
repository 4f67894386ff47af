package simnet_test

import (
	"bytes"
	"encoding/binary"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/ib"
)

// datagrams is the model of a datagram end.
type datagrams struct {
	qkey    uint32
	tos     uint8
	hops    uint8
	paths   []uint32 // address handles, by destination's number
	out     [][]*wr  // sent, by destination's number, in order
	arrived [][]int  // by sender's number: indices received
	lost    int      // sent with the wrong Q_Key
}

// addDatagrams gives hosts datagram queue pairs that all send to each other.
func (w *world) addDatagrams() {
	var ends []*end
	for _, h := range w.hosts {
		if e := w.newEnd(qp.UD, h); e != nil {
			ends = append(ends, e)
		}
	}
	for _, e := range ends {
		e.dgram = &datagrams{qkey: w.rng.Uint32() &^ (1 << 31), tos: uint8(w.rng.IntN(256)), hops: uint8(1 + w.rng.IntN(255))}
		w.check(rig.ReadyUD(e.q, e.dgram.qkey, psn.New(w.rng.Uint32())))
		for _, to := range ends {
			ah, err := e.h.PD.CreateAH(qp.Path{Dst: to.h.Link.Local(), TrafficClass: e.dgram.tos, HopLimit: e.dgram.hops})
			w.check(err)
			e.h.ahs = append(e.h.ahs, ah)
			e.dgram.paths = append(e.dgram.paths, ah)
			e.dgram.out = append(e.dgram.out, nil)
			e.dgram.arrived = append(e.dgram.arrived, nil)
		}
	}
}

// datagramEnds returns the datagram ends in order of their numbers.
func (w *world) datagramEnds() (list []*end) {
	for _, e := range w.ends {
		if e.kind == qp.UD {
			list = append(list, e)
		}
	}
	return list
}

func (e *end) makeDatagram() *wr {
	w := e.w
	ends := w.datagramEnds()
	i := w.rng.IntN(len(ends))
	to := ends[i]
	r := &wr{}
	r.Op = queue.Send
	e.payload(r, w.length(e.h.Dev.MTU()))
	if w.chance(50) {
		r.Op, r.ImmInv = queue.SendImm, w.rng.Uint32()
	}
	if w.chance(30) {
		r.Flags |= queue.Solicited
	}
	r.UD = queue.UD{RemoteQPN: to.q.QPN, RemoteQKey: to.dgram.qkey, AHNum: e.dgram.paths[i]}
	switch k := w.rng.IntN(100); {
	case k < 3:
		r.UD.RemoteQKey ^= 1
		e.dgram.lost++
		return r
	case k < 5:
		return e.spoilLocal(r)
	case k < 7:
		r.Inline, r.expect = nil, []queue.Status{queue.LocLenErr}
		list := w.anywhere(e.h.source, e.h.Dev.MTU()+1+w.rng.IntN(100), e.maxSGE)
		r.SGEs, r.data = entries(list), gather(list)
		return r
	}
	e.dgram.out[i] = append(e.dgram.out[i], r)
	return r
}

// datagram checks a received datagram: it was sent to this end, is complete, has its network
// header in front, and comes after earlier ones.
func (e *end) datagram(r *recv, c *queue.CQE) {
	ends := e.w.datagramEnds()
	me, sender := -1, -1
	for i, x := range ends {
		if x == e {
			me = i
		}
		if x.q.QPN == c.SrcQPN {
			sender = i
		}
	}
	settle(r.spans)
	if sender < 0 || c.ByteLen < ib.GRHLen || c.Flags&queue.WCGRH == 0 {
		e.w.fail("%s: datagram completed as %+v", e.name, *c)
		return
	}
	got := found(r.spans, int(c.ByteLen))
	if why := e.badHeader(ends[sender], got[:ib.GRHLen]); why != "" {
		e.w.fail("%s: network header % x: %s", e.name, got[:ib.GRHLen], why)
	}
	seen := e.dgram.arrived[sender]
	start := 0
	if n := len(seen); n > 0 && !e.w.profile.disorder {
		start = seen[n-1] + 1
	}
	for i, m := range ends[sender].dgram.out[me][start:] {
		if sameDatagram(m, c, got[ib.GRHLen:]) {
			e.dgram.arrived[sender] = append(seen, start+i)
			e.w.stats.datagrams++
			return
		}
	}
	e.w.fail("%s: received a datagram that nobody sent, or too late: %+v", e.name, *c)
}

func sameDatagram(m *wr, c *queue.CQE, data []byte) bool {
	imm := m.Op == queue.SendImm
	return bytes.Equal(data, m.data) && imm == (c.Flags&queue.WCImm != 0) && (!imm || c.ImmInv == m.ImmInv) &&
		(c.Solicited != 0) == (m.Flags&queue.Solicited != 0) && c.Op == queue.WCRecv
}

// badHeader describes what is wrong with the 40 bytes in front of a datagram.
func (e *end) badHeader(from *end, b []byte) string {
	src, dst := from.h.Link.Local().Addr(), e.h.Link.Local().Addr()
	tos, hops := uint8(0), uint8(0)
	if src.Is4() && !e.w.ethernet { // RoCE v1 has a GRH whatever the address
		h := b[20:]
		tos, hops = h[1], h[8]
		s, d := src.As4(), dst.As4()
		if h[0] != 0x45 || !bytes.Equal(h[12:16], s[:]) || !bytes.Equal(h[16:20], d[:]) || !bytes.Equal(b[:20], make([]byte, 20)) {
			return "not the IPv4 header"
		}
	} else {
		tos, hops = uint8(binary.BigEndian.Uint32(b)>>20), b[7]
		s, d := src.As16(), dst.As16()
		if b[0]>>4 != 6 || !bytes.Equal(b[8:24], s[:]) || !bytes.Equal(b[24:], d[:]) {
			return "not the IPv6 header"
		}
	}
	// CA17-5: nothing slows datagrams down, so they are not ECN-capable.
	if tos != from.dgram.tos&^3 || hops != from.dgram.hops {
		return "traffic class or hop limit"
	}
	return ""
}

// checkDatagrams compares received and refused datagrams with those that were sent.
func (w *world) checkDatagrams(n *[reason.Count]uint64) {
	sent, lost, arrived := 0, 0, 0
	for _, e := range w.datagramEnds() {
		for _, list := range e.dgram.out {
			sent += len(list)
		}
		for _, list := range e.dgram.arrived {
			arrived += len(list)
		}
		lost += e.dgram.lost
		if e.flushedSends > 0 {
			return // it is unknown which of them were sent
		}
	}
	p := &w.profile
	if p.lossy || p.disorder {
		return
	}
	if got := int(n[reason.PacketQKey]); got != lost {
		w.fail("%d datagrams refused for their Q_Key, %d sent so", got, lost)
	}
	if refused := int(n[reason.PacketNoReceive] + n[reason.PacketTooLong]); arrived+refused != sent {
		w.fail("%d datagrams sent, %d arrived, %d refused", sent, arrived, refused)
	}
}
