//go:build linux

package uverbs

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/commands"
	"softrdma/internal/wire/uapi"
)

func TestProgramSendsWritesReadsAndCounts(t *testing.T) {
	a, b := newPair(t, newServer(t, "127.14.0.1"))
	exercise(t, a, b)
}

// exercise sends requests of each kind from a to b, and checks what they do.
func exercise(t *testing.T, a, b *side) {
	for i := range a.buf {
		a.buf[i] = byte(i * 7)
	}
	b.receive(b.sge(0, 5000))
	a.post(queue.Send, nil, a.sge(0, 2000), a.sge(4000, 3000))
	if e := a.completion(); e.Op != queue.WCSend || e.WRID != uint64(queue.Send)+100 {
		t.Errorf("send completed as %+v", e)
	}
	if e := b.completion(); e.Op != queue.WCRecv || e.ByteLen != 5000 || e.WRID != 7 {
		t.Errorf("receive completed as %+v", e)
	}
	if want := append(bytes.Clone(a.buf[:2000]), a.buf[4000:7000]...); !bytes.Equal(b.buf[:5000], want) {
		t.Error("the received bytes differ from those sent")
	}

	target := func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf[8192:]), RKey: b.key} }
	a.post(queue.Write, target, a.sge(100, 8000))
	a.completion()
	if !bytes.Equal(b.buf[8192:][:8000], a.buf[100:8100]) {
		t.Error("the written bytes differ from those sent")
	}
	copy(b.buf[8192:], "changed by the program itself")
	a.post(queue.Read, target, a.sge(0, 8000))
	a.completion()
	if !bytes.Equal(a.buf[:8000], b.buf[8192:][:8000]) {
		t.Error("the READ returned other bytes than the memory has")
	}
	a.post(queue.Write, func(w *queue.SendWQE) {
		target(w)
		w.Flags |= queue.Inline
		w.Length = 6
		copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(w), queue.SendWQELen)), 6), "inline")
	})
	a.completion()
	if string(b.buf[8192:][:6]) != "inline" {
		t.Errorf("inline data: found %q", b.buf[8192:][:6])
	}

	word := b.buf[16:24]
	binary.NativeEndian.PutUint64(word, 40)
	a.post(queue.FetchAdd, func(w *queue.SendWQE) {
		*w.Atomic() = queue.Atomic{Addr: addrOf(word), CompareAdd: 2, RKey: b.key}
	}, a.sge(0, 8))
	a.completion()
	a.post(queue.CompareSwap, func(w *queue.SendWQE) {
		*w.Atomic() = queue.Atomic{Addr: addrOf(word), CompareAdd: 42, Swap: 1 << 40, RKey: b.key}
	}, a.sge(8, 8))
	a.completion()
	if x, y, z := binary.NativeEndian.Uint64(a.buf), binary.NativeEndian.Uint64(a.buf[8:]), binary.NativeEndian.Uint64(word); x != 40 || y != 42 || z != 1<<40 {
		t.Errorf("atomics returned %d and %d and left %#x", x, y, z)
	}
}

// Programs name a peer by its GID and know no port. The device's own GID means the
// device itself, whatever port it has.
func TestProgramsOfADeviceOnAnotherPortReachIt(t *testing.T) {
	a, b := newPair(t, newServer(t, "127.14.0.7:4797"))
	b.receive(b.sge(0, 8))
	copy(a.buf, "to\x00itself")
	a.post(queue.Send, nil, a.sge(0, 8))
	a.completion()
	if b.completion(); !bytes.Equal(b.buf[:8], a.buf[:8]) {
		t.Errorf("received %q", b.buf[:8])
	}
}

func TestProgramMayWriteAgainFromSameBuffer(t *testing.T) {
	// What was loaded for one message must not be sent with the next.
	s := newServer(t, "127.14.0.2")
	a, b := newPair(t, s)
	for i := range 50 {
		for k := range 3000 {
			a.buf[k] = byte(i + k)
		}
		a.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: b.key} }, a.sge(0, 3000))
		a.completion()
		if !bytes.Equal(a.buf[:3000], b.buf[:3000]) {
			t.Fatalf("message %d has other data", i)
		}
	}
}

// unmapped registers memory that is then taken away.
func unmapped(t *testing.T, f *devFile) (at uint64, m uapi.RegMRResp) {
	t.Helper()
	gone, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	at = addrOf(gone)
	m, _, _ = do[uapi.RegMRResp](f, uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{Start: at, Length: 1 << 16, HCAVA: at, AccessFlags: rightsAll}), 12)
	if err := unix.Munmap(gone); err != nil {
		t.Fatal(err)
	}
	return at, m
}

func TestUnmappedMemoryFailsOnlyItsRequest(t *testing.T) {
	s := newServer(t, "127.14.0.3")
	a, b := newPair(t, s)
	at, m := unmapped(t, a.f)
	a.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: b.key} },
		memory.SGE{Addr: at, Length: 100, LKey: m.LKey})
	c := *a.events.consumer()
	eventually(t, "a completion", func() bool { return *a.events.producer() != c })
	e := *(*queue.CQE)(a.events.slot(c))
	if e.Status != queue.LocProtErr || e.Reason.String() != "MEMORY_UNMAPPED" {
		t.Errorf("completed as %v with reason %v", e.Status, e.Reason)
	}
}

// What was not stored is not acknowledged: the peer's request fails.
func TestWriteToUnmappedMemoryFails(t *testing.T) {
	s := newServer(t, "127.14.0.6")
	a, b := newPair(t, s)
	at, m := unmapped(t, a.f)
	b.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: at, RKey: m.RKey} }, b.sge(0, 5000))
	c := *b.events.consumer()
	eventually(t, "a completion", func() bool { return *b.events.producer() != c })
	if e := *(*queue.CQE)(b.events.slot(c)); e.Status == queue.Success {
		t.Errorf("completed as %v", e.Status)
	}
	if maps.Collect(s.cfg.Devices[0].Counters())["MEMORY_UNMAPPED"] == 0 {
		t.Error("the refusal was not counted")
	}
}

func TestCompletionEventsAreReadAndCounted(t *testing.T) {
	s := newServer(t, "127.14.0.4")
	a, b := newPair(t, s)
	arm := func() {
		if no, _, _ := b.f.command(uapi.CmdReqNotifyCQ, uapi.Bytes(&uapi.ReqNotifyCQ{CQHandle: b.cq}), nil, 0); no != 0 {
			t.Fatal(no)
		}
	}
	event := func() {
		b.receive(b.sge(0, 100))
		arm()
		a.post(queue.Send, nil, a.sge(0, 100))
		a.completion()
		b.completion()
	}
	event()
	var record [8]byte
	if n, err := unix.Read(b.channel, record[:]); n != 8 || err != nil || binary.NativeEndian.Uint64(record[:]) != 0x2001 {
		t.Fatalf("read %d bytes %x: %v", n, record, err)
	}
	event() // is not read
	eventually(t, "an event to be read", func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(b.channel), Events: unix.POLLIN}}, 0)
		return n == 1
	})
	if no, _, _ := b.f.command(uapi.CmdDestroyCQ, uapi.Bytes(&uapi.Destroy{Handle: b.cq}), nil, 8); no != syscall.EBUSY {
		t.Errorf("destroying a queue in use: found %v", no)
	}
	if no, _, _ := b.f.command(uapi.CmdDestroyQP, uapi.Bytes(&uapi.Destroy{Handle: b.handle}), nil, 4); no != 0 {
		t.Fatal(no)
	}
	told, _, _ := do[uapi.DestroyCQResp](b.f, uapi.CmdDestroyCQ, uapi.Bytes(&uapi.Destroy{Handle: b.cq}), 8)
	if told.CompEvents != 1 || told.AsyncEvents != 0 {
		t.Errorf("reported %+v, one event was read", told)
	}
	if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(b.channel), Events: unix.POLLIN}}, 0); n != 0 {
		t.Error("an event of a queue that is gone can be read")
	}
}

func TestAsyncEventNamesTheObjectAsTheProgramDoes(t *testing.T) {
	s := newServer(t, "127.14.0.5")
	f := newTestClient(t, s).open("uverbs0")
	_, _, fds := do[uapi.GetContextResp](f, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
	async := os.NewFile(uintptr(fds[0]), "async")
	defer async.Close()
	a, b := newSide(f, 0x1000), newSide(f, 0x2000)
	a.connect(b.qpn, s.cfg.Devices[0].GID())
	b.connect(a.qpn, s.cfg.Devices[0].GID())
	// A WRITE with a wrong key moves the responder to the error state.
	a.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: ^b.key} }, a.sge(0, 8))
	var e uapi.AsyncEvent
	if _, err := async.Read(uapi.Bytes(&e)); err != nil {
		t.Fatal(err)
	}
	if e.Element != 0x2000 || e.EventType != 3 { // IBV_EVENT_QP_ACCESS_ERR
		t.Errorf("found %+v", e)
	}
	told, _, _ := do[uapi.DestroyResp](f, uapi.CmdDestroyQP, uapi.Bytes(&uapi.Destroy{Handle: b.handle}), 4)
	if told.EventsReported != 1 {
		t.Errorf("%d events reported, one was read", told.EventsReported)
	}
}

// A doorbell for a long message is answered before the message is executed,
// and once. How long it is the program says where it may say anything.
func TestLongMessageIsAnsweredOnceAndFirst(t *testing.T) {
	a, b := newPair(t, newServer(t, "127.14.1.92"))
	for i := range 20 {
		a.buf[0] = byte(i) + 1
		a.post(queue.Write, func(w *queue.SendWQE) {
			*w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: b.key}
			w.Length = commands.LongPost
		}, a.sge(0, 5000))
		// The next call is answered for itself, and behind the message.
		if q, _, _ := do[uapi.QueryQPResp](a.f, uapi.CmdQueryQP, uapi.Bytes(&uapi.QueryQP{Response: 1, QPHandle: a.handle}), uapi.Size[uapi.QueryQPResp]()); q.DestQPN != b.qpn {
			t.Fatalf("found the peer %#x, expected %#x", q.DestQPN, b.qpn)
		}
		if b.buf[0] != byte(i)+1 {
			t.Fatal("the message was not carried out before the next call")
		}
		if e := a.completion(); e.ByteLen != 5000 {
			t.Fatalf("completion of %d bytes, expected 5000", e.ByteLen)
		}
	}
}

func TestQueryReturnsTheAddressOfModify(t *testing.T) {
	s := newServer(t, "127.14.1.93")
	a, _ := newPair(t, s)
	q, _, _ := do[uapi.QueryQPResp](a.f, uapi.CmdQueryQP, uapi.Bytes(&uapi.QueryQP{QPHandle: a.handle}), uapi.Size[uapi.QueryQPResp]())
	want := uapi.QPDest{DGID: s.cfg.Devices[0].GID(), IsGlobal: 1, PortNum: 1, HopLimit: 64, SL: 5}
	if q.Dest != want || qp.State(q.State) != qp.RTS || q.PathMTU != 3 {
		t.Errorf("expected %+v, found %+v, state %d, MTU %d", want, q.Dest, q.State, q.PathMTU)
	}
}
