package adapter_test

import (
	"slices"
	"testing"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/ib"
)

// A lie is what a liar does, and the reason that the victim counts for it.
type lie struct {
	name string
	tell func(t *testing.T, l *liar)
	want reason.Reason
	ends bool // the channel
}

// TestLyingHostPeerHarmsItselfAlone: a peer that keeps to the format of the rings, and lies
// in it, is refused by a named reason. It loses its own connections at most.
func TestLyingHostPeerHarmsItselfAlone(t *testing.T) {
	for _, c := range slices.Concat(trainLies(), responseLies(), referenceLies(), slotLies(), packetLies(), receiverLies()) {
		t.Run(c.name, func(t *testing.T) {
			l := newLiar(t)
			l.harmed(t)
			before := counters(l.x.b.Dev)
			c.tell(t, l)
			l.x.b.Dev.Progress()
			after := counters(l.x.b.Dev)
			if after[c.want] == before[c.want] {
				t.Errorf("counted %v, expected %v", counted(before, after), c.want)
			}
			l.harmed(t)
			l.ended(t, c.ends)
			l.leave(t)
		})
	}
}

// trainLies are trains whose number of packets and payload do not agree.
func trainLies() (list []lie) {
	full := make([]byte, 8192)
	for name, p := range map[string]psn.PSN{"expected": 0, "ahead": 5, "duplicate": psn.New(0xfffffe)} {
		for _, c := range []struct {
			name  string
			op    ib.Opcode
			train int
			n     int
			want  reason.Reason
		}{
			{"65535 packets with 8 bytes", ib.RCWriteOnly, 65535, 8, reason.LengthShortSegment},
			{"65535 packets without payload", ib.RCWriteFirst, 65535, 0, reason.LengthShortSegment},
			{"3 packets with the payload of 2", ib.RCWriteFirst, 3, 2048, reason.LengthShortSegment},
			{"2 packets with the payload of 3", ib.RCSendFirst, 2, 3072, reason.LengthMTU},
			{"2 packets with one byte too many", ib.RCSendOnly, 2, 2049, reason.LengthMTU},
			{"a last train of 4 packets with 5 bytes", ib.RCWriteLast, 4, 5, reason.LengthShortSegment},
			{"a middle that does not fill its packets", ib.RCSendMiddle, 8, 8191, reason.LengthShortSegment},
		} {
			if !c.op.Info().First && name == "expected" {
				c.want = reason.OpcodeSequence
			}
			list = append(list, lie{
				name: name + " train: " + c.name, want: c.want,
				tell: func(t *testing.T, l *liar) {
					must(t, rig.PostRecv(l.x.qps[0][1].Recv, 9, l.x.b.sge(0, 16384)))
					l.copy(l.head(c.train), l.header(0, c.op, p, c.n), full[:c.n])
				},
			})
		}
	}
	return list
}

// responseLies are answers to a READ that do not agree with it.
func responseLies() (list []lie) {
	const asked = 16 << 10 // 16 packets
	for _, c := range []struct {
		name  string
		op    ib.Opcode
		first psn.PSN
		train int
		n     int
		want  reason.Reason
	}{
		{"more packets than were asked for", ib.RCReadResponseFirst, 0, 1000, asked, reason.ResponseLength},
		{"the last of more packets than were asked for", ib.RCReadResponseLast, 0, 1000, asked, reason.ResponseOpcode},
		{"more packets and bytes than were asked for", ib.RCReadResponseFirst, 0, 17, asked + 1024, reason.ResponseLength},
		{"fewer bytes than its packets", ib.RCReadResponseFirst, 0, 8, 1024, reason.ResponseLength},
		{"fewer bytes than its packets, in the middle", ib.RCReadResponseMiddle, 4, 8, 1024, reason.ResponseLength},
		{"fewer bytes than its packets, at the end", ib.RCReadResponseLast, 8, 8, 5, reason.ResponseLength},
		{"no bytes, in the middle", ib.RCReadResponseMiddle, 4, 65535, 0, reason.ResponseLength},
		{"packets beyond the request", ib.RCReadResponseMiddle, 15, 65535, 8192, reason.ResponseLength},
	} {
		list = append(list, lie{name: "response: " + c.name, want: c.want, tell: func(t *testing.T, l *liar) {
			q := l.x.qps[0][1]
			must(t, rig.PostSend(q, rig.Send{ID: 5, Op: queue.Read, Flags: queue.Signaled, SGEs: []memory.SGE{l.x.b.sge(0, asked)}, Addr: 1, RKey: 2}))
			l.x.b.Dev.Progress()
			l.copy(l.head(c.train), l.header(0, c.op, c.first, c.n), make([]byte, c.n))
		}})
	}
	return list
}

// referenceLies name payload that the liar does not have.
func referenceLies() (list []lie) {
	for _, c := range []struct {
		name string
		ref  hostmem.Ref
		n    int
	}{
		{"segment that was never offered", hostmem.Ref{Segment: 8}, 1024},
		{"offset behind the segment", hostmem.Ref{Segment: 7, Offset: 8192}, 1},
		{"payload that crosses the segment's end", hostmem.Ref{Segment: 7, Offset: 8192 - 1023}, 1024},
		{"offset that overflows", hostmem.Ref{Segment: 7, Offset: ^uint64(0) - 1022}, 1024},
		{"offset of the largest number", hostmem.Ref{Segment: 7, Offset: ^uint64(0)}, 1024},
		{"no segment", hostmem.Ref{Offset: 4096}, 1024},
		{"longest payload of a segment", hostmem.Ref{Segment: 7}, hostmem.ReferMax},
	} {
		list = append(list, lie{name: "reference: " + c.name, want: reason.HostReference, tell: func(t *testing.T, l *liar) {
			l.refer(l.head(0), l.header(0, ib.RCWriteOnly, 0, c.n), c.ref, c.n)
		}})
	}
	write := func(l *liar, segment uint32, p psn.PSN) {
		l.refer(l.head(0), l.header(0, ib.RCWriteOnly, p, 1024), hostmem.Ref{Segment: segment}, 1024)
	}
	return append(list,
		lie{name: "reference: segment that was withdrawn", want: reason.HostReference, tell: func(t *testing.T, l *liar) {
			write(l, 7, 0)
			if string(l.x.b.mem[:1024]) != string(l.memory[:1024]) {
				t.Error("the payload did not arrive")
			}
			delete(l.segments, 7)
			write(l, 7, 1)
		}},
		lie{name: "reference: revoked while it is copied", want: reason.HostRevoked, tell: func(t *testing.T, l *liar) {
			l.during = func() { l.word(ringRevoked).Store(^uint64(0)) }
			must(t, rig.PostRecv(l.x.qps[0][1].Recv, 9, l.x.b.sge(0, 16384)))
			l.refer(l.head(0), l.header(0, ib.RCSendOnly, 0, 1024), hostmem.Ref{Segment: 7}, 1024)
			var got [1]queue.CQE
			if n := rig.Poll(l.x.b.cq, got[:]); n != 0 {
				t.Errorf("%d messages completed with a payload that was taken back", n)
			}
		}},
		lie{name: "reference: revoked before it is sent", want: reason.HostRevoked, tell: func(t *testing.T, l *liar) {
			l.word(ringRevoked).Store(^uint64(0))
			write(l, 7, 0)
		}},
		lie{name: "reference: slot overwritten while its payload is copied", want: reason.HostReference, tell: func(t *testing.T, l *liar) {
			l.during = func() { l.slot(0, formInSlot, 255, 1<<30, ^uint64(0), ^uint64(0)) }
			write(l, 7, 0)
			if string(l.x.b.mem[:1024]) != string(l.memory[:1024]) {
				t.Error("the payload of the message that was read did not arrive")
			}
			l.word(ringSlots + 2*slotSize).Store(0)
			write(l, 8, 1) // the ring continues
		}},
	)
}

// slotLies are slots that no sender writes.
func slotLies() (list []lie) {
	for _, c := range []struct {
		name    string
		form    uint8
		header  int
		length  uint32
		place   uint64
		segment uint64
	}{
		{name: "form 6", form: 6, header: 12},
		{name: "form 255", form: 255, header: 12},
		{name: "65 bytes of headers", form: formInSlot, header: 65},
		{name: "255 bytes of headers", form: formByRef, header: 255},
		{name: "payload that leaves the slot", form: formInSlot, header: 12, length: slotSize - 16 - 12 + 1},
		{name: "largest payload in a slot", form: formInSlot, length: 1<<32 - 1},
		{name: "payload that leaves the arena", form: formInArena, header: 28, length: 100, place: arenaSize - 99},
		{name: "offset in the arena that overflows", form: formInArena, header: 28, length: 100, place: ^uint64(0) - 50},
		{name: "payload longer than the ring's limit", form: formInArena, header: 28, length: hostmem.InlineMax + 1},
		{name: "reference longer than the ring's limit", form: formByRef, header: 28, length: hostmem.ReferMax + 1, segment: 7},
	} {
		list = append(list, lie{name: "slot: " + c.name, want: reason.HostRing, ends: true, tell: func(t *testing.T, l *liar) {
			l.slot(0, c.form, c.header, c.length, c.place, c.segment)
		}})
	}
	for name, stamp := range map[string]uint64{"stamp of the next round": 2, "stamp of the round before": 1<<32 - 1, "any stamp": 77} {
		list = append(list, lie{name: "slot: " + name, want: reason.HostRing, ends: true, tell: func(t *testing.T, l *liar) {
			l.word(ringSlots).Store(stamp)
		}})
	}
	return append(list, lie{name: "slot: stamp that goes back", want: reason.HostRing, ends: true, tell: func(t *testing.T, l *liar) {
		for n := range uint64(slotCount) { // a whole round
			l.slot(n, formInSlot, 12, 0, 0, 0)
			l.x.b.Dev.Progress()
		}
		l.word(ringSlots).Store(0)
	}})
}

// packetLies are packets that the headers, the payload or the address contradict.
func packetLies() (list []lie) {
	to := func(name string, want reason.Reason, tell func(l *liar)) {
		list = append(list, lie{name: "packet: " + name, want: want, tell: func(_ *testing.T, l *liar) { tell(l) }})
	}
	raw := func(l *liar, kind hostmem.Kind, header, payload []byte) {
		h := l.head(0)
		h.Kind = kind
		l.senders[0].Copy(h, header, [][]byte{payload}, len(payload))
	}
	headers := func(l *liar, op ib.Opcode) []byte {
		p := l.header(0, op, 0, 0)
		return p.Append(nil)[:p.HeaderLen()]
	}
	to("no headers", reason.PacketShort, func(l *liar) { raw(l, hostmem.Message, nil, make([]byte, 100)) })
	to("headers cut", reason.PacketShort, func(l *liar) { raw(l, hostmem.Message, headers(l, ib.RCWriteOnly)[:20], nil) })
	to("headers too long", reason.PacketShort, func(l *liar) { raw(l, hostmem.Message, make([]byte, hostmem.MaxHeader), nil) })
	to("unknown opcode", reason.PacketOpcode, func(l *liar) { raw(l, hostmem.Message, append([]byte{0xff}, headers(l, ib.RCSendOnly)[1:]...), nil) })
	to("wrong padding", reason.PacketPad, func(l *liar) { raw(l, hostmem.Message, headers(l, ib.RCSendOnly), []byte{1}) })
	to("acknowledge with payload", reason.PacketExtraPayload, func(l *liar) { raw(l, hostmem.Message, headers(l, ib.RCAcknowledge), make([]byte, 4)) })
	to("empty whole packet", reason.PacketShort, func(l *liar) { raw(l, hostmem.Packet, nil, nil) })
	to("whole packet without ICRC", reason.PacketShort, func(l *liar) { raw(l, hostmem.Packet, nil, headers(l, ib.RCSendOnly)) })
	to("whole packet of padding", reason.PacketPad, func(l *liar) {
		b := append(headers(l, ib.RCSendOnly), 0, 0, 0, 0)
		b[1] |= 3 << 4
		raw(l, hostmem.Packet, nil, b)
	})
	to("whole packet by a reference", reason.HostReference, func(l *liar) {
		h := l.head(0)
		h.Kind = hostmem.Packet
		l.senders[0].Refer(h, nil, hostmem.Ref{Segment: 9}, 1<<20)
	})
	to("connection of another peer", reason.PacketSource, func(l *liar) {
		p := l.header(0, ib.RCWriteOnly, 0, 8)
		p.DestQPN = l.partner.qp.QPN
		l.copy(l.head(0), p, make([]byte, 8))
	})
	to("multicast", reason.PacketMulticast, func(l *liar) {
		p := l.header(2, ib.UDSendOnly, 0, 8)
		p.DestQPN = 0xffffff
		l.copy(l.head(0), p, make([]byte, 8))
	})
	to("management datagram of nonsense", reason.MADLength, func(l *liar) {
		p := l.header(2, ib.UDSendOnly, 0, 256)
		p.DestQPN, p.DETH.QKey = 1, 0x80010000
		l.copy(l.head(9), p, make([]byte, 256))
		p.PSN, p.Pad = 1, 3
		l.copy(l.head(9), p, make([]byte, 1))
	})
	to("datagram that is a train", reason.PacketNoReceive, func(l *liar) { l.copy(l.head(65535), l.header(2, ib.UDSendOnly, 0, 8), make([]byte, 8)) })
	to("WRITE of an unreliable connection that is a train", reason.LengthShortSegment, func(l *liar) {
		l.copy(l.head(65535), l.header(1, ib.UCWriteFirst, 3, 8), make([]byte, 8))
	})
	to("WRITE outside of the region", reason.KeyBounds, func(l *liar) {
		p := l.header(0, ib.RCWriteOnly, 0, 8)
		p.RETH.Addr += regionLen - 7
		l.copy(l.head(0), p, make([]byte, 8))
	})
	to("WRITE to memory without a right", reason.KeyAccess, func(l *liar) {
		p := l.header(0, ib.RCWriteOnly, 0, 8)
		p.RETH.Addr, p.RETH.RKey = 0x900000, l.regions[0].Key
		l.copy(l.head(0), p, make([]byte, 8))
	})
	to("WRITE of a length that overflows", reason.KeyBounds, func(l *liar) {
		p := l.header(0, ib.RCWriteFirst, 0, 1024)
		p.RETH.Addr, p.RETH.Length = ^uint64(0)-1023, 1<<31
		l.copy(l.head(0), p, make([]byte, 1024))
	})
	return list
}

// receiverLies are what a peer may write as the one that takes messages. The victim continues to
// send to it.
func receiverLies() (list []lie) {
	for name, words := range map[string]map[int]uint64{
		"more taken than sent":      {ringHead: 1 << 60},
		"fewer taken than before":   {ringHead: ^uint64(0)},
		"copies of every message":   {ringCopying: ^uint64(0)},
		"asleep at every message":   {ringArmed: ^uint64(0), ringArmed - 128: 5},
		"a capture that never ends": {ringICRC: ^uint64(0)},
		"all at once":               {ringHead: 3, ringArmed: 1, ringICRC: 1, ringWake: 0, ringRevoked: 9},
	} {
		list = append(list, lie{name: "receiver: " + name, want: reason.AckTimeout, tell: func(t *testing.T, l *liar) {
			q := l.x.qps[0][1]
			for i := range uint64(40) {
				for at, v := range words {
					word(l.out, at).Store(v)
				}
				if q.SQ.Len() < q.SQ.Depth() {
					must(t, rig.PostSend(q, rig.Send{ID: i, Op: queue.Write, SGEs: []memory.SGE{l.x.b.sge(0, 60000)}, Addr: 1, RKey: 2}))
				}
				l.x.b.Net.Sleep(waitTime / 100)
			}
			drainCQ(l.x.b)
		}})
	}
	return list
}
