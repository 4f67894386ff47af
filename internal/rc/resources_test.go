package rc

import (
	"bytes"
	"slices"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

func TestResponderKeyGoneInsideReadIsDenied(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	mr, err := b.port.Memory.Register(7, make([]byte, 8*testMTU), 0, qp.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8*testMTU)}, remote: queue.RDMA{RKey: mr.Key}})
	w.take(0, 1)
	w.deliver(1, 1)
	w.take(1, 3)
	if err := b.port.Memory.Deregister(mr); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.wantStatuses(&a.send, queue.RemAccessErr)
	if b.raised(machine.EventQPAccessErr) != 1 {
		t.Errorf("events %v", b.events)
	}
	if last := w.sent[0][len(w.sent[0])-1]; last.PSN != psn.PSN(testPSN0).Add(3) {
		t.Errorf("NAK at %v", last.PSN)
	}
}

func TestResponderDuplicateSendAckedAgainNotExecuted(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	b.postRecv(1, b.sge(0, 8))
	b.postRecv(2, b.sge(0, 8))
	for range 2 {
		w.inject(1, requestPacket(ib.RCSendOnly, 0, 8))
		if got := w.answers(); len(got) != 1 || got[0].PSN != testPSN0 || got[0].AETH != (ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 1}) {
			t.Fatalf("answers %+v", got)
		}
	}
	w.wantStatuses(&b.recv, 0)
	if b.count(reason.SequenceDuplicate) != 1 {
		t.Errorf("refused %v", b.refused)
	}
}

// Linux's requester treats a second acknowledge of a message's last PSN as the message's end even
// while it repeats the message. It then stops for good if its send queue is full. A repetition must
// therefore not be acknowledged with that PSN before its own last packet.
func TestResponderDuplicateRequestingAckIsAckedUpToItself(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	b.postRecv(1, b.sge(0, 3*testMTU))
	message := []ib.Packet{
		requestPacket(ib.RCSendFirst, 0, testMTU), requestPacket(ib.RCSendMiddle, 1, testMTU), requestPacket(ib.RCSendLast, 2, testMTU),
	}
	message[0].AckReq, message[1].AckReq = false, false
	for _, k := range message {
		w.inject(1, k)
	}
	if got := w.answers(); len(got) != 1 || got[0].PSN != psn.PSN(testPSN0).Add(2) {
		t.Fatalf("answers %+v", got)
	}
	for i, ask := range []bool{false, true, true} {
		message[i].AckReq = ask
		w.inject(1, message[i])
		got := w.answers()
		if !ask {
			if len(got) != 0 {
				t.Errorf("duplicate %d did not ask for an acknowledge: found %+v", i, got)
			}
			continue
		}
		if len(got) != 1 || got[0].PSN != psn.PSN(testPSN0).Add(i) || got[0].AETH != (ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 1}) {
			t.Errorf("duplicate %d: found %+v, expected one acknowledge of its own PSN", i, got)
		}
	}
	for _, k := range message {
		w.inject(1, k)
	}
	if got := w.answers(); len(got) != 1 || got[0].PSN != psn.PSN(testPSN0).Add(2) {
		t.Errorf("a whole repetition at once: found %+v, expected one acknowledge of its end", got)
	}
	w.wantStatuses(&b.recv, 0)
}

func TestResponderDuplicateReadReplaysAnyPart(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	fill(b.mem, 5)
	const n = 5*testMTU + 7
	whole := ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: n}
	w.inject(1, writePacket(ib.RCReadRequest, 0, 0, whole))
	if got := w.answers(); len(got) != 6 {
		t.Fatalf("%d responses", len(got))
	}
	for _, r := range []struct{ skip, packets, length int }{{0, 6, n}, {2, 4, n - 2*testMTU}, {5, 1, 7}, {1, 2, 2 * testMTU}, {3, 1, 5}} {
		h := whole
		h.Addr += uint64(r.skip * testMTU)
		h.Length = uint32(r.length)
		w.inject(1, writePacket(ib.RCReadRequest, r.skip, 0, h))
		got := w.answers()
		var all []byte
		for i, k := range got {
			info := k.Opcode.Info()
			if k.PSN != psn.PSN(testPSN0).Add(r.skip+i) || info.First != (i == 0) || info.Last != (i == len(got)-1) {
				t.Errorf("part %+v: response %d is %v at %v", r, i, k.Opcode, k.PSN)
			}
			all = append(all, k.Payload...)
		}
		if len(got) != r.packets || !bytes.Equal(all, b.mem[r.skip*testMTU:r.skip*testMTU+r.length]) {
			t.Errorf("part %+v: %d packets, %d bytes", r, len(got), len(all))
		}
	}
	bad := []ib.RETH{
		{Addr: whole.Addr + 1, RKey: whole.RKey, Length: 8},
		{Addr: whole.Addr, RKey: whole.RKey, Length: n + 1},
		{Addr: whole.Addr, RKey: whole.RKey ^ 1, Length: n},
		{Addr: whole.Addr, RKey: whole.RKey, Length: 0},
	}
	for _, h := range bad {
		w.inject(1, writePacket(ib.RCReadRequest, 0, 0, h))
		if got := w.answers(); len(got) != 0 {
			t.Errorf("%+v was answered", h)
		}
	}
	if b.count(reason.SequenceDuplicateUnknown) != len(bad) || b.port.Attr.State != qp.RTS {
		t.Errorf("refused %v", b.refused)
	}
}

func TestResponderDuplicateAtomicGivesSavedResult(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	word := b.mr.Word(b.mr.Base)
	*word = 40
	k := requestPacket(ib.RCFetchAdd, 0, 0)
	k.AtomicETH = ib.AtomicETH{Addr: b.mr.Base, RKey: b.mr.Key, SwapAdd: 2}
	for range 3 {
		w.inject(1, k)
		if got := w.answers(); len(got) != 1 || got[0].AtomicAck != 40 || got[0].Opcode != ib.RCAtomicAcknowledge || got[0].AETH.MSN != 1 {
			t.Fatalf("answers %+v", got)
		}
	}
	if *word != 42 {
		t.Errorf("memory holds %d", *word)
	}
}

func TestResponderForgottenAtomicDropped(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MaxDestRdAtomic = 2 })
	b := w.n[1]
	k := requestPacket(ib.RCFetchAdd, 0, 0)
	k.AtomicETH = ib.AtomicETH{Addr: b.mr.Base, RKey: b.mr.Key, SwapAdd: 1}
	for i := range 3 {
		k.PSN = psn.PSN(testPSN0).Add(i)
		w.inject(1, k)
		w.answers()
	}
	k.PSN = testPSN0
	w.inject(1, k)
	if got := w.answers(); len(got) != 0 || b.count(reason.SequenceDuplicateUnknown) != 1 {
		t.Errorf("answers %+v, refused %v", got, b.refused)
	}
}

func TestResponderMoreReadsThanResourcesRefused(t *testing.T) {
	w := newPair(t, func(i int, p *machine.Port) {
		p.Attr.MaxRdAtomic, p.Attr.MaxDestRdAtomic = 8, 2
	})
	a, b := w.n[0], w.n[1]
	for range 3 {
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0, queue.RemInvReqErr)
	if b.count(reason.TooManyReads) != 1 || b.raised(machine.EventQPReqErr) != 1 {
		t.Errorf("refused %v, events %v", b.refused, b.events)
	}
}

func TestResponderAcksDoNotOvertakeReads(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	w.postWrites(1)
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 3*testMTU)}, remote: b.target(0)})
	w.postWrites(1)
	a.post(wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(0, 8)}, atomic: b.word(0)})
	w.postWrites(1)
	w.take(0, 100)
	w.deliver(1, 100)
	w.take(1, 100)
	want := []ib.Opcode{ib.RCReadResponseFirst, ib.RCReadResponseMiddle, ib.RCReadResponseLast, ib.RCAtomicAcknowledge, ib.RCAcknowledge}
	if got := w.opcodes(0); !slices.Equal(got, want) {
		t.Fatalf("answers %v, want %v", got, want)
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0, 0, 0)
	if len(a.refused) != 0 {
		t.Errorf("refused %v", a.refused)
	}
}

func TestResponderRepeatedMessagesAckedUpToUnansweredRead(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	w.fate = drop(0, 0, 1) // READ response and acknowledge
	w.postWrites(1)
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	w.postWrites(1)
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0)
	if a.count(reason.ResponseGap) != 0 || a.count(reason.AckTimeout) != 1 {
		t.Errorf("refused %v", a.refused)
	}
}

func TestResponderReadResponsesAndRequestsTakeTurns(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 100*testMTU)}, remote: b.target(0)})
	b.post(wqe{op: queue.Write, list: []memory.SGE{b.sge(0, 100*testMTU)}, remote: a.target(30000)})
	w.take(0, 1)
	w.deliver(1, 1)
	w.take(1, 4*burst)
	n := 0
	for _, k := range w.sent[0] {
		if k.Opcode.Info().Kind == ib.KindReadResponse {
			n++
		}
	}
	if n != 2*burst {
		t.Errorf("%d READ responses among %d packets", n, 4*burst)
	}
	w.settle()
	w.wantStatuses(&a.send, 0)
	w.wantStatuses(&b.send, 0)
}

func TestResponderDuplicateWriteAckedOnlyUpToRead(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	h := ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 8}
	w.inject(1, writePacket(ib.RCWriteOnly, 0, 8, h))
	w.inject(1, writePacket(ib.RCReadRequest, 1, 0, h))
	if got := w.answers(); len(got) != 1 || got[0].Opcode != ib.RCReadResponseOnly {
		t.Fatalf("answers %+v: the response acknowledges the WRITE as well", got)
	}
	w.inject(1, writePacket(ib.RCWriteOnly, 2, 8, h))
	w.answers()
	w.inject(1, writePacket(ib.RCWriteOnly, 0, 8, h))
	if got := w.answers(); len(got) != 1 || got[0].PSN != testPSN0 {
		t.Errorf("answers %+v", got)
	}
}

func TestResponderAnswerToDuplicateMakesRoomForNewRead(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MaxDestRdAtomic = 1 })
	b := w.n[1]
	h := ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 8}
	w.inject(1, writePacket(ib.RCReadRequest, 0, 0, h))
	w.answers()
	w.inject(1, writePacket(ib.RCReadRequest, 0, 0, h))
	w.inject(1, writePacket(ib.RCReadRequest, 1, 0, h))
	if got := w.answers(); len(got) != 1 || got[0].Opcode != ib.RCReadResponseOnly || got[0].PSN != psn.PSN(testPSN0).Add(1) {
		t.Errorf("answers %+v", got)
	}
}

// The peer asks for a READ once more, has the answer then, and tells the program, which takes
// the memory away before the second answer leaves. No requester waits for that.
func TestResponderOwesNoAnswerToDuplicateReadOfMemoryThatIsGone(t *testing.T) {
	for name, w := range map[string]*pair{"go-back-N": newPair(t, nil), "selective": newSelective(t, nil)} {
		t.Run(name, func(t *testing.T) {
			b := w.n[1]
			h := ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 4 * testMTU}
			w.inject(1, writePacket(ib.RCReadRequest, 0, 0, h))
			w.answers()
			w.inject(1, writePacket(ib.RCReadRequest, 0, 0, h))
			b.q.Revoked() // a path through memory takes back what it lent
			if err := b.port.Memory.Deregister(b.mr); err != nil {
				t.Fatal(err)
			}
			if got := w.answers(); len(got) != 0 || b.port.Attr.State != qp.RTS {
				t.Errorf("answers %+v in state %v, expected none in RTS", got, b.port.Attr.State)
			}
			h.Length = 0 // needs no key
			w.inject(1, writePacket(ib.RCReadRequest, 4, 0, h))
			if got := w.answers(); len(got) != 1 || got[0].Opcode != ib.RCReadResponseOnly {
				t.Errorf("answers %+v to the next READ", got)
			}
		})
	}
}

func TestResponderDuplicateReadAnsweredBeforeLaterOne(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	h := ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 8}
	w.inject(1, writePacket(ib.RCReadRequest, 0, 0, h))
	w.answers()
	h.Length = 4 * testMTU
	w.inject(1, writePacket(ib.RCReadRequest, 1, 0, h))
	w.take(1, 2)
	h.Length = 8
	w.inject(1, writePacket(ib.RCReadRequest, 0, 0, h))
	w.sent[0] = nil
	w.take(1, 100)
	want := []ib.Opcode{ib.RCReadResponseOnly, ib.RCReadResponseMiddle, ib.RCReadResponseLast}
	if got := w.opcodes(0); !slices.Equal(got, want) || w.sent[0][0].PSN != testPSN0 {
		t.Errorf("answers %v, want %v", got, want)
	}
}
