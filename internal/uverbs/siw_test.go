//go:build linux

package uverbs

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/uapi"
)

func TestSIWProgramSendsWritesAndReads(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.1")
	a, b := newSIWPair(t, s)
	for i := range a.buf {
		a.buf[i] = byte(i * 7)
	}
	b.receive(b.sge(0, 4000), b.sge(8000, 1000))
	a.post(siwOpSend, queue.RDMA{}, a.sge(0, 2000), a.sge(4000, 3000))
	if e := a.success(); e.op != siwOpSend || e.id != 103 {
		t.Errorf("send completed as %+v", e)
	}
	if e := b.success(); e.op != siwOpReceive || e.bytes != 5000 || e.id != 7 {
		t.Errorf("receive completed as %+v", e)
	}
	sent := append(bytes.Clone(a.buf[:2000]), a.buf[4000:7000]...)
	if got := append(bytes.Clone(b.buf[:4000]), b.buf[8000:9000]...); !bytes.Equal(got, sent) {
		t.Error("the received bytes differ from those sent")
	}
	a.post(siwOpWrite, b.at(8192), a.sge(100, 8000))
	if e := a.success(); e.op != siwOpWrite {
		t.Errorf("write completed as %+v", e)
	}
	a.post(siwOpRead, b.at(8192), a.sge(0, 8000)) // which tells that the WRITE arrived
	if e := a.success(); e.op != siwOpRead || e.bytes != 8000 {
		t.Errorf("read completed as %+v", e)
	}
	if !bytes.Equal(a.buf[:8000], b.buf[8192:][:8000]) {
		t.Error("the bytes that were read differ from those written")
	}
	inline := memory.SGE{Length: 6}
	var rest memory.SGE
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&rest)), 16), "inline")
	b.receive(b.sge(0, 100))
	if a.push(siwOpSend, queue.SIWInline, queue.RDMA{}, inline, rest) {
		a.ring()
	}
	a.success()
	if e := b.success(); e.bytes != 6 || string(b.buf[:6]) != "inline" {
		t.Errorf("completed as %+v with %q", e, b.buf[:6])
	}
}

// The provider leaves out the doorbell where it sees that the request before was
// not taken yet: whatever the order, all are executed.
func TestSIWRequestsWithoutDoorbellAreCarriedOut(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.2")
	a, b := newSIWPair(t, s)
	const total = 500
	done := 0
	for posted := 0; done < total; {
		for free := int(a.caps.Sends) - (posted - done); free > 0 && posted < total; free-- {
			a.post(siwOpWrite, b.at(0), a.sge(0, 64+posted%1000))
			posted++
		}
		a.success()
		done++
	}
	a.push(siwOpWrite, 0, b.at(0), a.sge(0, 8))
	a.post(siwOpRead, b.at(0), a.sge(0, 8)) // the second of two needs none
	a.ring()
	a.success()
	a.success()
}

func TestSIWFailedRequestsAreReportedAndFlushed(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.3")
	a, b := newSIWPair(t, s)
	a.receive(a.sge(0, 100))
	a.post(siwOpWrite, b.at(0), memory.SGE{Addr: addrOf(a.buf), Length: 8192, LKey: ^a.key})
	if e := a.completion(); e.status != 2 { // SIW_WC_LOC_PROT_ERR
		t.Errorf("completed as %+v", e)
	}
	if e := a.completion(); e.status != 4 || e.op != siwOpReceive { // SIW_WC_WR_FLUSH_ERR
		t.Errorf("completed as %+v", e)
	}
	for range 3 * a.caps.Sends { // more than the queue holds
		a.post(siwOpSend, queue.RDMA{}, a.sge(0, 8))
		if e := a.completion(); e.status != 4 {
			t.Fatalf("completed as %+v", e)
		}
	}
	// librdmacm wants SQD of whatever it disconnects, which siw ignores.
	if no := a.modify(qp.SQD); no != 0 {
		t.Errorf("SQD: %v", no)
	}
	if no := a.modify(qp.RTS); no != 0 {
		t.Errorf("RTS of a queue pair in the error state: %v", no)
	}
}

func TestSIWOperationsOfNoProviderAreRefused(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.4")
	a, _ := newSIWPair(t, s)
	a.post(2, queue.RDMA{}, a.sge(0, 8))    // READ with invalidate
	if e := a.completion(); e.status != 3 { // SIW_WC_LOC_QP_OP_ERR
		t.Errorf("completed as %+v", e)
	}
}

func TestSIWDoorbellBeforeTheConnectionIsRefused(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.5")
	f := newTestClient(t, s).open("uverbs0")
	a := newSIW(f, 0x1000)
	if no := a.bell(); no == 0 {
		t.Error("a queue pair without a connection accepted a doorbell")
	}
	if no := a.modify(qp.Init); no != 0 {
		t.Fatal(no)
	}
	if no := a.modify(qp.RTS); no == 0 {
		t.Error("a queue pair went to RTS without a connection")
	}
}

func TestSIWEventsComeWhereTheProgramArmedInMemory(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.6")
	a, b := newSIWPair(t, s)
	readable := func(c int) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(c), Events: unix.POLLIN}}, 0)
		return n == 1
	}
	event := func() {
		var record [8]byte
		if n, err := unix.Read(b.channel, record[:]); n != 8 || err != nil || binary.NativeEndian.Uint64(record[:]) != 0x2001 {
			t.Fatalf("read %d bytes %x: %v", n, record, err)
		}
	}
	send := func(flags uint16) {
		b.receive(b.sge(0, 100))
		if a.push(siwOpSend, flags, queue.RDMA{}, a.sge(0, 8)) {
			a.ring()
		}
		a.success()
		b.success()
	}
	send(0)
	if readable(b.channel) {
		t.Error("an event without arming")
	}
	b.arm(queue.ArmSolicited | queue.ArmCompletion)
	send(0)
	event()
	send(0)
	if readable(b.channel) {
		t.Error("arming once raised two events")
	}
	b.arm(queue.ArmSolicited)
	send(0)
	if readable(b.channel) {
		t.Error("an event for a SEND that was not solicited")
	}
	send(queue.SIWSolicited)
	event()
}

// A completion queue that is not polled overflows, and its queue pair fails.
func TestSIWCompletionOverflowEndsTheQueuePair(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.7")
	a, b := newSIWPair(t, s)
	refused := syscall.Errno(0)
	eventually(t, "an overflow", func() bool {
		if a.push(siwOpWrite, 0, b.at(0), a.sge(0, 8)) {
			refused = a.bell()
		}
		o, _ := uapi.Parse[uapi.QueryQPResp](func() []byte {
			_, b, _ := do[uapi.QueryQPResp](a.f, uapi.CmdQueryQP, uapi.Bytes(&uapi.QueryQP{QPHandle: a.handle}), 128)
			return b
		}())
		return qp.State(o.State) == qp.Err
	})
	if refused != 0 {
		t.Errorf("doorbell: %v", refused)
	}
	for range a.entries {
		a.completion()
	}
	if a.ready() {
		t.Error("a completion after the overflow")
	}
}

func TestSIWSharedReceiveQueue(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.8")
	f := newTestClient(t, s).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	r, b, _ := do[uapi.CreateSRQResp](f, uapi.CmdCreateSRQ, uapi.Bytes(&uapi.CreateSRQ{PDHandle: pd.Handle, MaxWR: 10, MaxSGE: 2}), 32)
	told, _ := uapi.Parse[uapi.SIWSRQ](b[16:])
	if told.Entries != 16 || r.MaxWR != 16 {
		t.Errorf("%d and %d entries", told.Entries, r.MaxWR)
	}
	f.mmap(uapi.MmInfo{Offset: told.Key, Size: told.Entries * 112})
	if q, _, _ := do[uapi.QuerySRQResp](f, uapi.CmdQuerySRQ, uapi.Bytes(&uapi.QuerySRQ{SRQHandle: r.SRQHandle}), 16); q.MaxWR != 16 || q.MaxSGE != queue.SIWMaxSGE {
		t.Errorf("found %+v", q)
	}
	if no, _, _ := f.command(uapi.CmdModifySRQ, uapi.Bytes(&uapi.ModifySRQ{SRQHandle: r.SRQHandle, AttrMask: uapi.SRQMaxWR, MaxWR: 20}), make([]byte, 8), 0); no != syscall.EOPNOTSUPP {
		t.Errorf("resizing: %v", no)
	}
}

// What siw's provider cannot ask for is refused who asks for it anyhow.
func TestSIWDeviceHasNoPathsOfItsOwn(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.9")
	f := newTestClient(t, s).open("uverbs0")
	a := newSIW(f, 0x1000)
	if no, _, _ := f.command(uapi.CmdResizeCQ, uapi.Bytes(&uapi.ResizeCQ{CQHandle: a.cq, CQE: 10}), nil, 24); no != syscall.EOPNOTSUPP {
		t.Errorf("resizing: %v", no)
	}
	if no, _, _ := f.command(uapi.CmdCreateAH, uapi.Bytes(&uapi.CreateAH{Attr: uapi.AHAttr{IsGlobal: 1, PortNum: 1}}), nil, 12); no != syscall.EOPNOTSUPP {
		t.Errorf("address handle: %v", no)
	}
	r, _, _ := do[uapi.QueryDeviceResp](f, uapi.CmdQueryDevice, uapi.Bytes(&uapi.Response{}), uapi.Size[uapi.QueryDeviceResp]())
	if r.MaxSGE != 6 || r.MaxAH != 0 || r.MaxMcastGrp != 0 || r.AtomicCap != 0 {
		t.Errorf("found %+v", r)
	}
}

// Over iWARP a connection takes a queue pair by its number: it must be the own
// process's.
func TestSIWConnectionOfAnotherProgramsQueuePairIsRefused(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.10")
	h := startHelper(t, s, nil) // another process
	c := newTestClient(t, s)
	cm := cmFile{c.open("rdma_cm")}
	_, port := cm.listen(s.cfg.Devices[0].Addr().Addr())
	id := cm.resolve(netip.AddrPortFrom(s.cfg.Devices[0].Addr().Addr(), port))
	conn := uapi.ConnParam{Valid: 1, QPN: h.side.qpn}
	if no, _ := cm.do(uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{Conn: conn, ID: id}), 0, 0); no != syscall.EINVAL {
		t.Errorf("connecting: %v", no)
	}
	mine := newSIW(c.open("uverbs0"), 0x1000)
	conn.QPN = mine.qpn
	if no := mine.modify(qp.Init); no != 0 {
		t.Fatal(no)
	}
	cm.must(uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{Conn: conn, ID: id}), 0, 0)
	e := cm.event(cmConnectRequest)
	conn.QPN = h.side.qpn
	if no, _ := cm.do(uapi.CMAccept, uapi.Bytes(&uapi.CMAcceptCmd{Conn: conn, ID: e.ID}), 0, 0); no != syscall.EINVAL {
		t.Errorf("accepting: %v", no)
	}
}

func TestDevicesOfBothProtocolsSideBySide(t *testing.T) {
	s := newServer(t, "127.14.6.11 iwarp:127.14.6.12 127.14.6.13 iwarp:127.14.6.11")
	want := []string{"rxe0", "siw0", "rxe1", "siw1"}
	for i, d := range s.devices {
		if d.Name != want[i] {
			t.Errorf("device %d is called %s", i, d.Name)
		}
		node := "1: CA\n"
		if d.Adapter.IWARP() {
			node = "4: RNIC\n"
		}
		if b, err := os.ReadFile(s.Tree() + "/sys/class/infiniband/" + d.Name + "/node_type"); err != nil || string(b) != node {
			t.Errorf("%s: node type %q %v", d.Name, b, err)
		}
	}
	c := newTestClient(t, s)
	cm := cmFile{c.open("rdma_cm")}
	for i, addr := range []string{"127.14.6.11", "127.14.6.12", "127.14.6.13"} {
		at := netip.MustParseAddr(addr)
		id, _ := cm.listen(at)
		r, _ := uapi.Parse[uapi.CMRoute](cm.must(uapi.CMQueryRoute, uapi.Bytes(&uapi.CMByID{ID: id}), 0, uapi.Size[uapi.CMRoute]()))
		if r.NodeGUID != s.devices[i].GUID() {
			t.Errorf("%s is not on %s", addr, want[i])
		}
	}
	_, port := cm.listen(netip.IPv4Unspecified()) // of either protocol
	f := c.open("uverbs1")
	_, _, fds := do[uapi.GetContextResp](f, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 16)
	unix.Close(fds[0])
	id := cm.resolve(netip.AddrPortFrom(netip.MustParseAddr("127.14.6.12"), port))
	a := newSIW(f, 0x1000)
	if no := a.modify(qp.Init); no != 0 {
		t.Fatal(no)
	}
	cm.must(uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{Conn: uapi.ConnParam{Valid: 1, QPN: a.qpn}, ID: id}), 0, 0)
	cm.event(cmConnectRequest)
	// UD is RoCE's alone.
	ud := cm.id(0x111)
	bind := uapi.CMBindCmd{ID: ud, AddrSize: 16}
	uapi.PutAddr(bind.Addr[:], netip.MustParseAddrPort("127.14.6.12:0"))
	if no, _ := cm.do(uapi.CMBind, uapi.Bytes(&bind), 0, 0); no != syscall.EOPNOTSUPP {
		t.Errorf("a UD id on an iWARP device: %v", no)
	}
}
