package queue

import (
	"bytes"
	"testing"
	"unsafe"

	"softrdma/internal/memory"
)

// shared is memory like that shared by a driver's process.
func sharedMemory(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8)))), n)
}

func siwSendQueue(depth int) (*SendRing, []SIWSQE) {
	mem := sharedMemory(SIWSendLen(depth))
	return SIWSendRingOn(mem, depth), entries[SIWSQE](mem, SIWDepth(depth))
}

func TestSIWDepthIsAPowerOfTwo(t *testing.T) {
	for depth, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 4, 64: 64, 65: 128} {
		if got := SIWDepth(depth); got != want {
			t.Errorf("%d: %d entries, want %d", depth, got, want)
		}
	}
}

func TestSIWSendRequestsAreTakenAsTheyWerePosted(t *testing.T) {
	r, slots := siwSendQueue(8)
	if r.Producer() != r.Consumer() {
		t.Fatal("an empty queue holds something")
	}
	sges := [SIWMaxSGE]memory.SGE{{Addr: 1, Length: 10, LKey: 7}, {Addr: 2, Length: 20, LKey: 8}}
	for i, x := range []struct {
		op, flags uint16
		sges      uint8
		want      SendWQE
	}{
		{siwWrite, SIWSignaled, 2, SendWQE{Op: Write, Flags: Signaled, NumSGE: 2}},
		{siwRead, SIWReadFence, 1, SendWQE{Op: Read, Flags: Fence, NumSGE: 1}},
		{siwSend, SIWSolicited | SIWSignaled, 0, SendWQE{Op: Send, Flags: Solicited | Signaled}},
		{siwSendInv, 0, 1, SendWQE{Op: SendInv, NumSGE: 1, ImmInv: 0x77}},
		{siwSend, 0, 200, SendWQE{Op: Send, NumSGE: 200}},                                                // refused by its number of entries
		{siwRead, SIWInline, 1, SendWQE{Op: Read, NumSGE: 1}},                                            // there is nothing to send inline
		{2, 0, 1, SendWQE{Op: 1<<8 | 2, NumSGE: 1}},                                                      // READ with invalidate: the kernel's own
		{0xff, 0xff &^ SIWInline, 1, SendWQE{Op: 0x1ff, Flags: Fence | Signaled | Solicited, NumSGE: 1}}, // unknown
	} {
		e := &slots[i]
		e.ID, e.RKey, e.RAddr, e.SGE = uint64(i), 0x77, 0x1234, sges
		e.Post(x.flags, x.sges, uint8(x.op))
		end := r.Producer()
		if n := r.Distance(r.Consumer(), end); n != 1 {
			t.Fatalf("%d: %d requests", i, n)
		}
		if e.Posted() {
			t.Errorf("%d: the entry was not given back", i)
		}
		at := r.Consumer()
		w := r.At(at)
		if w.WRID != uint64(i) || w.Op != x.want.Op || w.Flags != x.want.Flags || w.NumSGE != x.want.NumSGE || w.ImmInv != x.want.ImmInv {
			t.Errorf("%d: found %+v", i, w)
		}
		if (w.Op == Write || w.Op == Read) && *w.RDMA() != (RDMA{Addr: 0x1234, RKey: 0x77}) {
			t.Errorf("%d: found %+v", i, *w.RDMA())
		}
		if list := r.SGEs(at); len(list) != int(min(x.want.NumSGE, SIWMaxSGE)) || len(list) > 0 && list[0] != sges[0] {
			t.Errorf("%d: entries %+v", i, list)
		}
		r.Release(end)
	}
}

func TestSIWInlineDataIsClipped(t *testing.T) {
	r, slots := siwSendQueue(2)
	for i, n := range []int{5, SIWMaxInline, 1 << 31} {
		e := &slots[i%2]
		e.SGE[0].Length = uint32(n)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&e.SGE[1])), SIWMaxInline), bytes.Repeat([]byte("inline"), 20))
		e.Post(SIWInline, 1, siwSend)
		at, end := r.Consumer(), r.Producer()
		if w := r.At(at); w.Length != uint32(n) || w.Flags&Inline == 0 || w.NumSGE != 0 {
			t.Errorf("found %+v", w)
		}
		if b := r.InlineData(at); len(b) != min(n, SIWMaxInline) || string(b[:5]) != "inlin" {
			t.Errorf("found %q", b)
		}
		r.Release(end)
	}
}

// The driver posts while the ring's requests have not completed. Requests that do not fit stay
// where they are, and are copied when there is room, without a doorbell.
func TestSIWRequestsWaitForRoom(t *testing.T) {
	r, slots := siwSendQueue(4)
	put := 0
	post := func() {
		for ; !slots[put%4].Posted(); put++ {
			slots[put%4].ID = uint64(put)
			slots[put%4].Post(0, 0, siwSend)
		}
	}
	taken := 0
	for range 5 {
		post()
		r.Producer()
	}
	for round := range 10 {
		if n := r.Distance(r.Consumer(), r.Producer()); n != r.Depth() {
			t.Fatalf("round %d: %d requests, room for %d", round, n, r.Depth())
		}
		for i, end := r.Consumer(), r.Producer(); i != end; i = r.Next(i) {
			if w := r.At(i); w.WRID != uint64(taken) {
				t.Fatalf("found request %d, want %d", w.WRID, taken)
			}
			taken++
		}
		r.Release(r.Ring.Producer())
		for range 5 {
			post()
			r.Producer()
		}
	}
	r.Detach()
	slots[put%4].Post(0, 0, siwSend)
	r.Release(r.Producer())
	if r.Len() != 0 {
		t.Error("a queue that was detached takes requests")
	}
}

func TestSIWReceivesAreTaken(t *testing.T) {
	mem := sharedMemory(SIWRecvLen(4))
	r, slots := SIWRecvRingOn(mem, 4), entries[SIWRQE](mem, 4)
	for i := range 20 {
		e := &slots[i%4]
		e.ID, e.SGE[0], e.SGE[5] = uint64(i), memory.SGE{Addr: uint64(i)}, memory.SGE{Addr: 5}
		e.Post(0, uint8(i), 0)
		if r.Len() != 1 || e.Posted() {
			t.Fatalf("%d requests", r.Len())
		}
		at := r.Consumer()
		if list := r.SGEs(at); r.At(at).WRID != uint64(i) || len(list) != min(i, SIWMaxSGE) || len(list) > 5 && (list[0].Addr != uint64(i) || list[5].Addr != 5) {
			t.Errorf("found %+v %+v", r.At(at), list)
		}
		r.Release(r.Producer())
	}
	r.Detach()
	slots[0].Post(0, 0, 0)
	if r.Len() != 0 {
		t.Error("a queue that was detached takes requests")
	}
}

func TestSIWCompletionsAreWrittenAsTheDriverReadsThem(t *testing.T) {
	mem := sharedMemory(SIWCompletionLen(3))
	r, slots := SIWCompletionRingOn(mem, 3), entries[SIWCQE](mem, 4)
	if r.Depth() != 4 {
		t.Fatalf("depth %d", r.Depth())
	}
	for i, x := range []struct {
		op     WCOp
		status Status
		wantOp uint8
		want   uint16
	}{
		{WCSend, Success, siwSend, 0},
		{WCWrite, LocLenErr, siwWrite, 1},
		{WCRead, LocProtErr, siwRead, 2},
		{WCRecv, LocQPOpErr, siwReceive, 3},
		{WCSend, MWBindErr, siwSend, 3},
		{WCRecvRDMAImm, WRFlushErr, siwReceive, 4},
		{WCFetchAdd, BadRespErr, siwFetchAdd, 5},
		{WCCompareSwap, LocAccessErr, siwCompare, 6},
		{WCLocalInv, RemAccessErr, siwSend, 7},
		{WCSend, RemInvReqErr, siwSend, 8},
		{WCSend, RetryExcErr, siwSend, siwGeneralErr},
		{WCSend, Statuses + 5, siwSend, siwGeneralErr},
	} {
		if !r.Put(&CQE{WRID: uint64(i), Op: x.op, Status: x.status, ByteLen: 99, QPN: 0xabcdef, Flags: WCWithInv, ImmInv: 0x55}) {
			t.Fatalf("%d: no room", i)
		}
		e := &slots[i%4]
		flags, op, status := e.load()
		if flags != SIWValid|siwRemInval || op != x.wantOp || status != x.want || e.ID != uint64(i) || e.Bytes != 99 || e.QPN != 0xabcdef || e.ImmInv != 0x55 {
			t.Errorf("%d: flags %#x, operation %d, status %d, %+v", i, flags, op, status, e)
		}
		e.store(0, op, status) // the driver has consumed it
	}
}

func TestSIWCompletionsThatWereNotTakenStay(t *testing.T) {
	mem := sharedMemory(SIWCompletionLen(4))
	r, slots := SIWCompletionRingOn(mem, 4), entries[SIWCQE](mem, 4)
	for i := range 4 {
		if !r.Put(&CQE{WRID: uint64(i)}) {
			t.Fatalf("no room for completion %d", i)
		}
	}
	if r.Put(&CQE{WRID: 9}) || slots[0].ID != 0 {
		t.Fatal("a completion was overwritten")
	}
	slots[0].store(0, 0, 0)
	if !r.Put(&CQE{WRID: 9}) || slots[0].ID != 9 || r.Put(&CQE{}) {
		t.Error("the place that was given back is not used")
	}
}

func TestSIWArmIsTheDriversWord(t *testing.T) {
	mem := sharedMemory(SIWCompletionLen(4))
	r := SIWCompletionRingOn(mem, 4)
	mem[4*int(unsafe.Sizeof(SIWCQE{}))] = ArmSolicited | ArmCompletion // on a little-endian machine
	mem[4*int(unsafe.Sizeof(SIWCQE{}))+3] = ArmSolicited | ArmCompletion
	if got := r.Arm().Load(); got&(ArmSolicited|ArmCompletion) != 3 {
		t.Errorf("found %#x", got)
	}
	if NewCompletionRing(4).Arm() != nil {
		t.Error("a ring that cannot be armed has a word for it")
	}
}

// The goroutine that rings the doorbell is not the consumer, and must not remove anything.
func TestSIWDoorbellTakesNothing(t *testing.T) {
	r, slots := siwSendQueue(4)
	slots[0].SGE[0].Length = 1 << 20
	slots[0].Post(0, 1, siwSend)
	if n := r.Posted(); n != 0 || !slots[0].Posted() || r.Len() != 0 {
		t.Errorf("%d bytes, %d requests in the ring", n, r.Len())
	}
}
