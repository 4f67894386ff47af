package recorder

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

func packet(o ib.Opcode, n psn.PSN) *ib.Packet {
	p := &ib.Packet{}
	p.Opcode, p.PSN, p.DestQPN = o, n, 7
	p.RETH = ib.RETH{Addr: 0x1000, RKey: 0x22, Length: 8}
	return p
}

func TestPacketsInSequenceAreOneRecord(t *testing.T) {
	var r Recorder
	for i := range 1000 {
		r.Packet(Sent, time.Duration(i)*time.Microsecond, 5, packet(ib.RCWriteOnly, psn.PSN(i)), 8, 1)
	}
	r.Packet(Sent, 2*time.Millisecond, 5, packet(ib.RCWriteOnly, 1000), 4096, 4)
	r.Continue(3*time.Millisecond, 16, 2)
	r.Packet(Sent, 4*time.Millisecond, 5, packet(ib.RCWriteOnly, 1006), 8, 1)
	all, lost := r.Records()
	if len(all) != 1 || lost != 0 || all[0].Count != 1007 || all[0].Bytes != 8000+4096+16+8 || all[0].Last != 4*time.Millisecond {
		t.Fatalf("%+v, %d lost, expected one record", all, lost)
	}
	for i, next := range []struct {
		kind Kind
		qpn  uint32
		op   ib.Opcode
		psn  psn.PSN
	}{
		{Sent, 5, ib.RCWriteOnly, 1000}, {Received, 5, ib.RCWriteOnly, 1001}, {Received, 6, ib.RCWriteOnly, 1002}, {Received, 6, ib.RCSendOnly, 1003},
	} {
		r.Packet(next.kind, 0, next.qpn, packet(next.op, next.psn), 8, 0)
		if all, _ := r.Records(); len(all) != i+2 {
			t.Errorf("%+v continues the record before", next)
		}
	}
}

func TestRecordersKeepTheLastRecords(t *testing.T) {
	var r Recorder
	var refusals Refusals
	for i := range 1000 {
		r.Packet(Sent, time.Duration(i), 5, packet(ib.RCWriteOnly, psn.PSN(2*i)), 8, 1)
		r.Add(Record{Kind: State, Time: time.Duration(i)})
		refusals.Add(time.Duration(i), uint32(i), reason.Detail{Reason: reason.KeyBounds})
	}
	all, lost := r.Records()
	if len(all) != Size+ringSize || lost != 2000-Size-ringSize {
		t.Errorf("%d records, %d lost", len(all), lost)
	}
	for i := 1; i < len(all); i++ {
		if all[i].Time < all[i-1].Time {
			t.Fatalf("record %d is of %v, the one before of %v", i, all[i].Time, all[i-1].Time)
		}
	}
	if last := all[len(all)-1]; last.Time != 999 {
		t.Errorf("the last record is %+v", last)
	}
	if all, lost := refusals.Records(); len(all) != ringSize || lost != 1000-ringSize || all[0].QPN != 1000-ringSize {
		t.Errorf("%d refusals, %d lost, the first of queue pair %d", len(all), lost, all[0].QPN)
	}
	for range 10 {
		refusals.Add(2000, 1, reason.Detail{Reason: reason.KeyBounds})
	}
	if all, _ := refusals.Records(); all[len(all)-1].Count != 10 {
		t.Errorf("%+v, expected one record of 10 refusals", all[len(all)-1])
	}
}

func TestPacketDoesNotAllocate(t *testing.T) {
	var r Recorder
	p := packet(ib.RCWriteOnly, 1)
	r.Packet(Sent, 0, 5, p, 8, 1)
	if n := testing.AllocsPerRun(100, func() { p.PSN = p.PSN.Add(2); r.Packet(Sent, 0, 5, p, 8, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLinesNameWhatHappened(t *testing.T) {
	bounds := reason.Detail{Reason: reason.KeyBounds, Expected: 16, Found: 32}
	for want, r := range map[string]Record{
		"    0.001000  QP 0x000005  sent      RC RDMA WRITE Only QP 0x000007 PSN 0x000001 VA 0x1000 R_Key 0x22 DMA len 8 len 16 in 2 packets until 0.002000": {
			Kind: Sent, Time: time.Millisecond, Last: 2 * time.Millisecond, QPN: 5, Count: 2, Bytes: 16, Header: packet(ib.RCWriteOnly, 1), Whole: true},
		"state     RTS -> ERR, KEY_BOUNDS: " + bounds.String(): {Kind: State, From: uint8(qp.RTS), To: uint8(qp.Err), Detail: bounds},
		"completed work request 0x9 with IBV_WC_REM_ACCESS_ERR, KEY_BOUNDS: " + bounds.String() + "; the peer says KEY_BOUNDS: " + bounds.String(): {
			Kind: Completed, WRID: 9, Status: uint8(queue.RemAccessErr), Detail: bounds, Said: bounds},
		"refused   3 times until 0.004000, first KEY_BOUNDS: " + bounds.String(): {Kind: Refused, Count: 3, Last: 4 * time.Millisecond, Detail: bounds},
	} {
		if got := r.Line(0); !strings.HasSuffix(got, want) {
			t.Errorf("found    %s\nexpected %s", got, want)
		}
	}
}

func TestRunEndsWithAPause(t *testing.T) {
	var r Recorder
	for i := range 4 {
		r.Packet(Sent, time.Duration(i)*2*time.Second, 5, packet(ib.RCWriteOnly, psn.PSN(i)), 8, 1)
	}
	if all, _ := r.Records(); len(all) != 4 {
		t.Errorf("%d records of packets 2 s apart, expected 4", len(all))
	}
}

// What is not kept of a packet is not shown.
func TestRecordShowsWhatItHas(t *testing.T) {
	var r Recorder
	atomic := packet(ib.RCFetchAdd, 1)
	atomic.AtomicETH = ib.AtomicETH{Addr: 0x1000, RKey: 0x77, SwapAdd: 5}
	datagram := packet(ib.UDSendOnly, 2)
	datagram.DETH = ib.DETH{QKey: 0x11, SrcQPN: 9}
	r.Packet(Sent, 1, 5, atomic, 0, 1)
	r.Packet(Sent, 2, 5, datagram, 8, 1)
	all, _ := r.Records()
	for i, want := range []string{"RC FetchAdd QP 0x000007 PSN 0x000001 VA 0x1000 R_Key 0x77", "UD SEND Only QP 0x000007 PSN 0x000002 src 0x000009 Q_Key 0x11 len 8"} {
		if got := all[i].Line(0); !strings.HasSuffix(got, want) {
			t.Errorf("found %s, expected %s", got, want)
		}
	}
	if all[0].Whole || !all[1].Whole {
		t.Errorf("whole: %v and %v, expected that of the datagram alone", all[0].Whole, all[1].Whole)
	}
}

// Packets to queue pairs that do not exist, which anyone can forge, push out only each other.
func TestForgedPacketsDoNotPushOutOtherRefusals(t *testing.T) {
	var r Refusals
	r.Add(1, 7, reason.Detail{Reason: reason.KeyAccess})
	for i := range 1000 {
		r.Add(time.Duration(i+2), uint32(i), reason.Detail{Reason: reason.PacketQPN})
	}
	if all, lost := r.Records(); len(all) != ringSize+1 || all[0].QPN != 7 || lost != 1000-ringSize {
		t.Errorf("found %d records, %d lost, the first %+v", len(all), lost, all[0])
	}
}

func TestCursorReadsEachRecordOnce(t *testing.T) {
	var r Refusals
	var c [2]Cursor
	read := func(want string, wantLost uint64) {
		t.Helper()
		all, lost := r.Since(&c)
		var got string
		for _, x := range all {
			got += fmt.Sprintf("%v@%d x%d ", x.Detail.Reason, x.Time, x.Count)
		}
		if got != want || lost != wantLost {
			t.Errorf("found %q, %d lost; expected %q, %d lost", got, lost, want, wantLost)
		}
	}
	add := func(now time.Duration, of reason.Reason) { r.Add(now, 1, reason.Detail{Reason: of}) }
	read("", 0)
	add(1, reason.AckTimeout)
	add(2, reason.AckTimeout)
	read("ACK_TIMEOUT@1 x2 ", 0)
	read("", 0)
	add(3, reason.AckTimeout)
	add(4, reason.NAKSequence)
	add(5, reason.PacketQPN)
	read("ACK_TIMEOUT@3 x1 NAK_SEQUENCE@4 x1 PACKET_QPN@5 x1 ", 0)
	for i := range ringSize + 3 {
		add(time.Duration(6+i), []reason.Reason{reason.AckTimeout, reason.NAKNotReady}[i%2])
	}
	if all, lost := r.Since(&c); len(all) != ringSize || lost != 3 {
		t.Errorf("%d records, %d lost", len(all), lost)
	}
	read("", 0)
}

// The race detector sees a count that is read without the lock.
func TestRefusalsAreCountedWhileTheyAreAdded(t *testing.T) {
	var r Refusals
	var adding sync.WaitGroup
	adding.Go(func() {
		for n := range uint32(100) {
			r.Add(0, n, reason.Detail{Reason: reason.KeyUnknown})
			r.Add(0, n, reason.Detail{Reason: reason.PacketQPN})
		}
	})
	for r.Made() < 200 {
		runtime.Gosched()
	}
	adding.Wait()
}
