package capture

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

var (
	hostA = netip.MustParseAddrPort("10.0.0.1:50000")
	hostB = netip.MustParseAddrPort("10.0.0.2:4791")
	backA = netip.MustParseAddrPort("10.0.0.1:4791")
	backB = netip.MustParseAddrPort("10.0.0.2:50001")
)

// QPNs of the connection in the scripts.
const (
	qpnA = 0x11
	qpnB = 0x12
)

// A script generates the packets of a connection in both directions.
type script struct {
	t *testing.T
	a *Analyzer
	n int
}

func newScript(t *testing.T) *script { return &script{t: t, a: NewAnalyzer()} }

// packet returns p as a Reader returns a valid packet.
func (s *script) packet(src, dst netip.AddrPort, p ib.Packet) *Packet {
	s.n++
	if p.PKey == 0 {
		p.PKey = 0xffff
	}
	p.Pad = ib.PadLen(len(p.Payload))
	b := append(p.Append(nil), 0, 0, 0, 0)
	return &Packet{Packet: p, Number: s.n, Time: time.Unix(0, int64(s.n)), Src: src, Dst: dst, Data: b, Length: len(b), ICRC: Good}
}

// ask and answer analyse a request and a response packet, and fail unless the
// findings have exactly these reasons. None means a note.
func (s *script) ask(p ib.Packet, want ...reason.Reason) []Finding {
	s.t.Helper()
	p.DestQPN = qpnB
	return s.add(s.packet(hostA, hostB, p), want)
}

func (s *script) answer(p ib.Packet, want ...reason.Reason) []Finding {
	s.t.Helper()
	p.DestQPN = qpnA
	return s.add(s.packet(backB, backA, p), want)
}

func (s *script) add(p *Packet, want []reason.Reason) []Finding {
	s.t.Helper()
	found := s.a.Add(p)
	var got []reason.Reason
	for _, f := range found {
		got = append(got, f.Detail.Reason)
		if f.String() == "" || strings.Contains(f.String(), "%!") {
			s.t.Errorf("packet %d: finding prints as %q", p.Number, f)
		}
	}
	if len(got) != len(want) {
		s.t.Errorf("packet %d %v: found %v, expected %v", p.Number, &p.Packet, found, want)
		return found
	}
	for i := range got {
		if got[i] != want[i] {
			s.t.Errorf("packet %d %v: found %v, expected %v", p.Number, &p.Packet, found, want)
		}
	}
	return found
}

// op returns a packet of an opcode, PSN and payload length.
func op(o ib.Opcode, p psn.PSN, n int) ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: o, PSN: p}, Payload: make([]byte, n)}
}

func read(p psn.PSN, n uint32) ib.Packet {
	x := op(ib.RCReadRequest, p, 0)
	x.RETH = ib.RETH{Addr: 0x1000, RKey: 0x77, Length: n}
	return x
}

func write(o ib.Opcode, p psn.PSN, n int, total uint32) ib.Packet {
	x := op(o, p, n)
	x.RETH = ib.RETH{Addr: 0x2000, RKey: 0x88, Length: total}
	return x
}

func ack(p psn.PSN, s ib.Syndrome) ib.Packet {
	x := op(ib.RCAcknowledge, p, 0)
	x.AETH = ib.AETH{Syndrome: s, MSN: 1}
	return x
}

func TestAnalyzerCleanTrafficHasNoFindings(t *testing.T) {
	s := newScript(t)
	at := psn.New(0xfffffd) // wraps within
	for range 3 {
		s.ask(op(ib.RCSendFirst, at, 1024))
		s.ask(op(ib.RCSendMiddle, at.Add(1), 1024))
		s.ask(op(ib.RCSendLast, at.Add(2), 7))
		s.answer(ack(at.Add(2), ib.ACKNoCredits))
		s.ask(write(ib.RCWriteFirst, at.Add(3), 1024, 1500))
		s.ask(op(ib.RCWriteLastImm, at.Add(4), 476))
		s.ask(read(at.Add(5), 2049))
		s.ask(op(ib.RCCompareSwap, at.Add(8), 0))
		s.ask(op(ib.RCSendOnly, at.Add(9), 0))
		s.answer(op(ib.RCReadResponseFirst, at.Add(5), 1024))
		s.answer(op(ib.RCReadResponseMiddle, at.Add(6), 1024))
		s.answer(op(ib.RCReadResponseLast, at.Add(7), 1))
		s.answer(op(ib.RCAtomicAcknowledge, at.Add(8), 0))
		s.answer(ack(at.Add(9), ib.ACK))
		s.ask(write(ib.RCAtomicWrite, at.Add(10), 8, 8))
		s.answer(op(ib.RCReadResponseOnly, at.Add(10), 0))
		s.ask(write(ib.RCFlush, at.Add(11), 0, 4096))
		s.answer(op(ib.RCReadResponseOnly, at.Add(11), 0))
		at = at.Add(12)
	}
	all := s.a.Connections()
	if len(all) != 2 || all[0].PeerQPN != qpnA || all[1].PeerQPN != qpnB || all[0].Packets != 30 || all[1].Packets != 24 {
		t.Errorf("connections %+v, expected both directions of one", all)
	}
	if all[0].Retransmitted+all[0].Missing+all[1].NAKs != 0 {
		t.Errorf("errors counted in clean traffic: %+v", all)
	}
}

func TestAnalyzerReadsXRCAsRC(t *testing.T) {
	s := newScript(t)
	xrc := func(p ib.Packet) ib.Packet {
		p.Opcode, p.XRCETH.SRQN = p.Opcode.Of(ib.XRC), 0x51
		return p
	}
	s.ask(xrc(op(ib.RCSendFirst, 1, 1024)))
	s.ask(xrc(op(ib.RCSendLast, 2, 7)))
	s.answer(xrc(ack(2, ib.ACKNoCredits)))
	s.ask(xrc(read(3, 2049)))
	s.answer(xrc(op(ib.RCReadResponseFirst, 3, 1024)))
	s.answer(xrc(op(ib.RCReadResponseMiddle, 4, 1024)))
	s.answer(xrc(op(ib.RCReadResponseLast, 5, 1)))
	s.ask(xrc(op(ib.RCSendOnly, 6, 8)))
	s.ask(xrc(op(ib.RCSendOnly, 8, 8)), reason.SequenceAhead)
	if all := s.a.Connections(); len(all) != 2 || all[0].Missing != 1 || all[0].PeerQPN != qpnA {
		t.Errorf("connections %+v, expected both directions of one with a packet missing", all)
	}
}

func TestAnalyzerLostPacketAndGoBack(t *testing.T) {
	s := newScript(t)
	s.ask(op(ib.RCSendFirst, 10, 256))
	found := s.ask(op(ib.RCSendMiddle, 13, 256), reason.SequenceAhead)
	if d := found[0].Detail; d.Expected != 11 || d.Found != 13 {
		t.Errorf("gap expected %d, found %d, should be 11 and 13", d.Expected, d.Found)
	}
	s.ask(op(ib.RCSendLast, 14, 1))
	s.answer(ack(11, ib.NAKSequence), reason.NAKSequence)
	s.ask(op(ib.RCSendMiddle, 11, 256), reason.None)
	s.ask(op(ib.RCSendMiddle, 12, 256), reason.None)
	s.ask(op(ib.RCSendMiddle, 13, 256), reason.SequenceDuplicate)
	s.ask(op(ib.RCSendLast, 14, 1), reason.SequenceDuplicate)
	s.answer(ack(14, ib.ACK))
	s.ask(op(ib.RCSendOnly, 15, 1))
	c := s.a.Connections()
	if c[0].Missing != 2 || c[0].Retransmitted != 2 || c[1].NAKs != 1 {
		t.Errorf("counted %+v and %+v, expected 2 missing, 2 retransmitted, 1 NAK", c[0], c[1])
	}
}

func TestAnalyzerOpcodeOutOfSequence(t *testing.T) {
	for _, c := range []struct {
		clause string
		o      []ib.Opcode
	}{
		{"9.7.4.1.2: Middle without First", []ib.Opcode{ib.RCSendOnly, ib.RCSendMiddle}},
		{"9.7.4.1.2: Last without First", []ib.Opcode{ib.RCSendOnly, ib.RCWriteLast}},
		{"9.7.4.1.2: First within a message", []ib.Opcode{ib.RCSendFirst, ib.RCSendFirst}},
		{"9.7.4.1.2: Only within a message", []ib.Opcode{ib.RCSendFirst, ib.RCSendOnlyImm}},
		{"9.7.4.1.2: READ within a message", []ib.Opcode{ib.RCSendFirst, ib.RCReadRequest}},
		{"9.7.4.1.2: WRITE Middle within a SEND", []ib.Opcode{ib.RCSendFirst, ib.RCWriteMiddle}},
		{"9.8.2.2: the same on UC", []ib.Opcode{ib.UCSendFirst, ib.UCWriteLast}},
	} {
		s := newScript(t)
		for n, o := range c.o {
			var want []reason.Reason
			if n == len(c.o)-1 {
				want = []reason.Reason{reason.OpcodeSequence}
			}
			size := 256
			if i := o.Info(); i.Last || !i.Payload {
				size = 0
				if !i.First {
					size = 1
				}
			}
			t.Log(c.clause)
			s.ask(op(o, psn.New(uint32(n)), size), want...)
		}
	}
}

func TestAnalyzerLengths(t *testing.T) {
	s := newScript(t)
	s.ask(op(ib.RCSendFirst, 0, 1024))
	s.ask(op(ib.RCSendMiddle, 1, 1000), reason.LengthShortSegment)
	s.ask(op(ib.RCSendMiddle, 2, 2048), reason.LengthMTU)
	s.ask(op(ib.RCSendLast, 3, 0), reason.LengthShortSegment)
	s.ask(op(ib.RCSendOnly, 4, 1028), reason.LengthMTU)
	s.ask(write(ib.RCWriteFirst, 5, 1024, 1025))
	s.ask(op(ib.RCWriteLast, 6, 2), reason.LengthExceedsRETH)
	s.ask(write(ib.RCWriteFirst, 7, 1024, 3000))
	s.ask(op(ib.RCWriteLast, 8, 1024), reason.LengthBelowRETH)
	s.ask(write(ib.RCWriteOnly, 9, 5, 4), reason.LengthExceedsRETH)
	s.ask(op(ib.RCSendOnly, 10, 5000), reason.LengthMTU, reason.LengthMTU)

	s = newScript(t)
	s.ask(op(ib.RCSendFirst, 0, 1000), reason.LengthShortSegment) // no path MTU
}

func TestAnalyzerNAKIsExplainedByItsRequest(t *testing.T) {
	s := newScript(t)
	s.ask(write(ib.RCWriteFirst, 0x100, 1024, 3000))
	s.ask(op(ib.RCWriteMiddle, 0x101, 1024))
	s.ask(op(ib.RCWriteLast, 0x102, 952))
	found := s.answer(ack(0x101, ib.NAKRemoteAccess), reason.NAKRemoteAccess)
	if d := found[0].Detail; d.Expected != 0x100 || d.Found != 0x101 {
		t.Errorf("NAK at %#x of message %#x, expected 0x101 and 0x100", d.Found, d.Expected)
	}
	for _, want := range []string{"RC RDMA WRITE First", "0x000100", "R_Key 0x88", "address 0x2000", "length 3000"} {
		if !strings.Contains(found[0].Text, want) {
			t.Errorf("explanation lacks %q: %s", want, found[0].Text)
		}
	}
	found = s.answer(ack(0x102, 0x2c), reason.NoReceive)
	if !strings.Contains(found[0].Text, "640µs") || found[0].Level != Warning {
		t.Errorf("RNR NAK explained as %v %q, expected a warning with the time", found[0].Level, found[0].Text)
	}
	s.answer(ack(0x102, ib.NAKInvalidRequest), reason.NAKInvalidRequest)
	s.answer(ack(0x102, ib.NAKRemoteOperational), reason.NAKRemoteOperational)
	s.answer(ack(0x102, 0x6f), reason.NAKReserved)
}

func TestAnalyzerResponses(t *testing.T) {
	s := newScript(t)
	s.ask(op(ib.RCSendFirst, 0, 256))
	s.ask(op(ib.RCSendLast, 1, 1))
	s.answer(ack(1, ib.ACK))
	s.ask(read(2, 1000)) // 4 responses
	s.ask(op(ib.RCSendOnly, 6, 1))
	s.answer(op(ib.RCReadResponseOnly, 6, 1), reason.ResponseUnexpected)
	s.answer(op(ib.RCReadResponseFirst, 2, 256))
	s.answer(op(ib.RCReadResponseMiddle, 4, 256), reason.ResponseGap)
	s.answer(op(ib.RCReadResponseMiddle, 4, 256), reason.ResponseStale)
	s.answer(op(ib.RCReadResponseLast, 5, 231), reason.ResponseLength)
	s.answer(op(ib.RCAtomicAcknowledge, 6, 0), reason.ResponseUnexpected)
	s.answer(ack(7, ib.ACK), reason.ResponseGhost)
	s.answer(op(ib.RCReadResponseLast, 9, 1), reason.ResponseGhost)

	s.ask(read(7, 1000))
	s.answer(op(ib.RCReadResponseFirst, 7, 256))
	s.answer(op(ib.RCReadResponseLast, 8, 256), reason.ResponseOpcode)
	// IBTA 9.7.5.1: the rest is requested again, from the middle.
	s.ask(read(8, 744), reason.SequenceDuplicate)
	s.answer(op(ib.RCReadResponseFirst, 8, 256))
	s.answer(op(ib.RCReadResponseMiddle, 9, 256))
	s.answer(op(ib.RCReadResponseLast, 10, 232))
}

func TestAnalyzerPartlyRepeatedReadAcceptsResponsesToTheFirst(t *testing.T) {
	s := newScript(t)
	s.ask(op(ib.RCSendFirst, 0, 256))
	s.ask(op(ib.RCSendLast, 1, 1))
	s.ask(read(2, 2*256))
	s.answer(op(ib.RCReadResponseFirst, 2, 256))
	s.ask(read(3, 256), reason.SequenceDuplicate)
	s.answer(op(ib.RCReadResponseLast, 3, 256)) // of the first request
	s.answer(op(ib.RCReadResponseOnly, 3, 256)) // of the second
}

func TestAnalyzerLearnsMTUFromReads(t *testing.T) {
	s := newScript(t)
	s.ask(read(100, 5000)) // 5 responses at 1024, 3 at 2048, 20 at 256
	s.ask(read(103, 5000)) // so it is 2048
	s.ask(op(ib.RCSendOnly, 106, 2049), reason.LengthMTU)

	s = newScript(t)
	s.ask(read(100, 5000))
	s.answer(op(ib.RCReadResponseFirst, 100, 1024))
	s.ask(op(ib.RCSendOnly, 105, 1))
	s.ask(op(ib.RCSendOnly, 107, 1), reason.SequenceAhead)
}

func TestAnalyzerUnreliableConnectionGap(t *testing.T) {
	s := newScript(t)
	s.ask(op(ib.UCSendFirst, 5, 256))
	s.ask(op(ib.UCSendLast, 7, 1), reason.SequenceGap)
	s.ask(op(ib.UCSendOnly, 8, 1))
	s.ask(op(ib.UCSendOnly, 8, 1), reason.SequenceDuplicate)
}

func TestAnalyzerCorruptedPacketsDoNotChangeTheConnection(t *testing.T) {
	s := newScript(t)
	s.ask(op(ib.RCSendOnly, 5, 1))
	p := op(ib.RCSendOnly, 1000, 1)
	p.DestQPN = qpnB
	bad := s.packet(hostA, hostB, p)
	bad.ICRC, bad.Expected, bad.Found = Bad, 1, 2
	found := s.add(bad, []reason.Reason{reason.PacketICRC})
	if found[0].Detail.Expected != 1 || found[0].Detail.Found != 2 || found[0].Level != Fault {
		t.Errorf("wrong ICRC found as %+v", found[0])
	}
	stray := s.packet(hostA, hostB, op(ib.RCSendOnly, 1000, 1))
	stray.Fault = ib.BadPad
	s.add(stray, []reason.Reason{reason.PacketPad})
	s.ask(op(ib.RCSendOnly, 6, 1))
	if c := s.a.Connections(); len(c) != 1 || c[0].BadICRC != 1 || s.a.Untracked() != 1 {
		t.Errorf("connections %+v, %d untracked, expected one with one bad, and one", c, s.a.Untracked())
	}
}

func TestAnalyzerMalformedPacketsHaveTheirReason(t *testing.T) {
	for fault, want := range map[ib.Fault]reason.Reason{
		ib.Short: reason.PacketShort, ib.BadOpcode: reason.PacketOpcode, ib.BadVersion: reason.PacketVersion,
		ib.BadPad: reason.PacketPad, ib.ExtraPayload: reason.PacketExtraPayload,
	} {
		s := newScript(t)
		p := s.packet(hostA, hostB, op(ib.RCSendOnly, 1, 4))
		p.Fault = fault
		s.add(p, []reason.Reason{want})
	}
}

func TestAnalyzerNotes(t *testing.T) {
	s := newScript(t)
	p := s.packet(hostA, hostB, op(ib.RCSendOnly, 1, 4))
	p.TOS = 3
	s.add(p, []reason.Reason{reason.None})
	s.ask(op(ib.CongestionNotify, 0, 16), reason.None)
	x := op(ib.RCSendOnly, 2, 1)
	x.PKey = 0x8000
	s.ask(x, reason.PacketPKey)
	s.ask(op(ib.RCSendOnly, 0x800000, 1), reason.None) // another connection
	s.ask(op(ib.RCSendOnly, 0x800001, 1))
}

// A capture with one direction only, or one that began late, has no faults.
func TestAnalyzerIncompleteCaptureHasNoFaults(t *testing.T) {
	s := newScript(t)
	s.answer(op(ib.RCReadResponseMiddle, 500, 1024))
	s.answer(ack(501, ib.ACK))
	s.ask(op(ib.RCSendMiddle, 600, 1024))
	s.ask(op(ib.RCSendLast, 601, 1))
	s.answer(ack(601, ib.ACK)) // pairs
	s.answer(op(ib.RCReadResponseLast, 510, 7))
	s.ask(op(ib.RCSendOnly, 602, 1))
}

func TestAnalyzerAmbiguousConnectionsAreNotPaired(t *testing.T) {
	s := newScript(t)
	for _, q := range []uint32{qpnB, qpnB + 1} {
		p := op(ib.RCSendOnly, 5, 1)
		p.DestQPN = q
		s.add(s.packet(hostA, hostB, p), nil)
	}
	s.answer(ack(5, ib.ACK))
	s.answer(ack(9, ib.ACK)) // a ghost acknowledge of either connection: not reported
}

func TestAnalyzerMemoryIsBounded(t *testing.T) {
	s := newScript(t)
	p := op(ib.RCReadRequest, 0, 0)
	p.RETH.Length = 1
	for n := range maxFlows + 1000 {
		p.DestQPN = uint32(n)
		s.a.Add(s.packet(hostA, hostB, p))
	}
	if n := len(s.a.Connections()); n != maxFlows || s.a.Untracked() != 1000 {
		t.Errorf("%d connections, %d untracked, expected %d and 1000", n, s.a.Untracked(), maxFlows)
	}
	s = newScript(t)
	for n := range 1000 {
		s.ask(read(psn.New(uint32(n)), 1))
	}
	for _, f := range s.a.order {
		if len(f.reads) > maxReads || len(f.recent) > maxRecent {
			t.Errorf("%d READs and %d messages kept", len(f.reads), len(f.recent))
		}
	}
}

func TestAnalyzerShowsTheReasonOfANAK(t *testing.T) {
	s := newScript(t)
	s.ask(op(ib.RCSendOnly, 0, 8))
	why := op(ib.RCReason, 0, 0)
	why.Payload = (&own.Reason{Number: uint32(reason.ReceiveTooSmall), Expected: 4, Found: 8}).Append(nil)
	found := s.answer(why, reason.None)
	if want := "RECEIVE_TOO_SMALL: message longer than the receive buffer: room for 4 bytes, found 8"; len(found) != 1 || !strings.Contains(found[0].Text, want) {
		t.Errorf("found %v, expected %q", found, want)
	}
	why.Payload = why.Payload[:8]
	s.answer(why)
}
