//go:build linux

package uverbs

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/uapi"
)

// A siwSide is a queue pair of a client with its queues, as siw's provider sees
// them.
type siwSide struct {
	f          *devFile
	qpn        uint32
	handle, cq uint32
	sq, rq     []byte
	events     []byte
	caps       uapi.SIWQP
	puts       [2]uint32 // of sends and receives
	gets       uint32
	entries    uint32 // of the completion queue
	buf        []byte
	key        uint32
	channel    int
}

// newSIW makes everything that a program makes for a queue pair.
func newSIW(f *devFile, user uint64) *siwSide {
	f.t.Helper()
	s := &siwSide{f: f, buf: f.alloc(16384)}
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	_, b, fds := do[uapi.HandleOnly](f, uapi.CmdCreateCompChannel, uapi.Bytes(&uapi.Response{}), 4)
	s.channel = fds[0]
	binary.NativeEndian.PutUint32(b, uint32(s.channel)) // as the library does
	f.t.Cleanup(func() { unix.Close(s.channel) })
	cq, b, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{UserHandle: user + 1, CQE: 100, CompChannel: int32(s.channel)}), 24)
	told, _ := uapi.Parse[uapi.SIWCQ](b[8:])
	s.cq, s.entries = cq.CQHandle, told.Entries
	s.events = f.mmap(uapi.MmInfo{Offset: told.Key, Size: told.Entries*32 + 8})
	q := uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
		UserHandle: user, PDHandle: pd.Handle, SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: 2, MaxRecvSGE: 2,
		MaxInline: 64, Type: uint8(qp.RC),
	}}
	r, b, _ := do[uapi.CreateQPResp](f, uapi.CmdCreateQP, uapi.Bytes(&q), 64)
	s.caps, _ = uapi.Parse[uapi.SIWQP](b[32:])
	s.qpn, s.handle = r.QPN, r.QPHandle
	s.sq = f.mmap(uapi.MmInfo{Offset: s.caps.SQKey, Size: s.caps.Sends * 120})
	s.rq = f.mmap(uapi.MmInfo{Offset: s.caps.RQKey, Size: s.caps.Receives * 112})
	m, _, _ := do[uapi.RegMRResp](f, uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{
		Start: addrOf(s.buf), Length: uint64(len(s.buf)), HCAVA: addrOf(s.buf), PDHandle: pd.Handle, AccessFlags: rightsAll,
	}), 20)
	s.key = m.LKey
	return s
}

// The operations of siw's layout.
const siwOpWrite, siwOpRead, siwOpSend, siwOpReceive = 0, 1, 3, 8

// push posts a request as the provider does, and reports whether that rings the
// doorbell.
func (s *siwSide) push(op uint8, flags uint16, to queue.RDMA, list ...memory.SGE) (bell bool) {
	s.f.t.Helper()
	at := func(i uint32) *queue.SIWSQE {
		return (*queue.SIWSQE)(unsafe.Pointer(&s.sq[i%s.caps.Sends*uint32(unsafe.Sizeof(queue.SIWSQE{}))]))
	}
	e := at(s.puts[0])
	if e.Posted() {
		s.f.t.Fatal("the send queue is full")
	}
	e.ID, e.RAddr, e.RKey = uint64(op)+100, to.Addr, to.RKey
	copy(e.SGE[:], list)
	e.Post(flags|queue.SIWSignaled, uint8(len(list)), op)
	bell = !at(s.puts[0] - 1).Posted()
	s.puts[0]++
	return bell
}

// post posts a request and rings the doorbell where the provider would.
func (s *siwSide) post(op uint8, to queue.RDMA, list ...memory.SGE) {
	s.f.t.Helper()
	if s.push(op, 0, to, list...) {
		s.ring()
	}
}

func (s *siwSide) ring() {
	s.f.t.Helper()
	if no := s.bell(); no != 0 {
		s.f.t.Fatalf("doorbell: %v", no)
	}
}

func (s *siwSide) bell() syscall.Errno {
	no, _, _ := s.f.command(uapi.CmdPostSend, uapi.Bytes(&uapi.PostSend{QPHandle: s.handle, WQESize: 128}), nil, 4)
	return no
}

func (s *siwSide) receive(list ...memory.SGE) {
	e := (*queue.SIWRQE)(unsafe.Pointer(&s.rq[s.puts[1]%s.caps.Receives*uint32(unsafe.Sizeof(queue.SIWRQE{}))]))
	s.puts[1]++
	e.ID = 7
	copy(e.SGE[:], list)
	e.Post(0, uint8(len(list)), 0)
}

// A siwWC is a completion as the provider reads it.
type siwWC struct {
	id     uint64
	op     uint8
	status uint16
	bytes  uint32
	qpn    uint64
}

// ready reports whether there is a completion.
func (s *siwSide) ready() bool {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&s.slot()[8])))&uint32(queue.SIWValid|queue.SIWValid<<24) != 0
}

func (s *siwSide) slot() []byte { return s.events[s.gets%s.entries*32:][:32] }

// completion waits for the next completion, whatever it is.
func (s *siwSide) completion() siwWC {
	s.f.t.Helper()
	eventually(s.f.t, "a completion", s.ready)
	b := s.slot()
	e := siwWC{
		id: binary.NativeEndian.Uint64(b), op: b[9], status: binary.NativeEndian.Uint16(b[10:]), bytes: binary.NativeEndian.Uint32(b[12:]),
		qpn: binary.NativeEndian.Uint64(b[24:]),
	}
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[8])), 0)
	s.gets++
	return e
}

// success is completion that must be of a success.
func (s *siwSide) success() siwWC {
	s.f.t.Helper()
	e := s.completion()
	if e.status != 0 || e.qpn != uint64(s.qpn) {
		s.f.t.Fatalf("completion %+v", e)
	}
	return e
}

// arm asks for an event as the provider does: in memory.
func (s *siwSide) arm(bits uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&s.events[s.entries*32])), bits)
}

func (s *siwSide) sge(off, n int) memory.SGE {
	return memory.SGE{Addr: addrOf(s.buf[off:]), Length: uint32(n), LKey: s.key}
}

func (s *siwSide) at(off int) queue.RDMA { return queue.RDMA{Addr: addrOf(s.buf[off:]), RKey: s.key} }

// modify asks for a state.
func (s *siwSide) modify(to qp.State) syscall.Errno {
	no, _, _ := s.f.command(uapi.CmdModifyQP, uapi.Bytes(&uapi.ModifyQP{QPHandle: s.handle, AttrMask: uint32(qp.MaskState), State: uint8(to)}), nil, 0)
	return no
}

// A cmFile is an open file of connection management.
type cmFile struct{ *devFile }

// do writes a command; where out is not 0, its answer is stored at the address
// at the offset at of the command.
func (f cmFile) do(number uint32, in []byte, at, out int) (syscall.Errno, []byte) {
	f.t.Helper()
	var to []byte
	if out > 0 {
		to = f.alloc(out)
		clear(to)
		binary.NativeEndian.PutUint64(in[at:], addrOf(to))
	}
	h := uapi.CMHeader{Command: number, In: uint16(len(in)), Out: uint16(out)}
	n, _, _ := f.write(append(uapi.Bytes(&h), in...))
	if n < 0 {
		return syscall.Errno(-n), nil
	}
	return 0, to
}

func (f cmFile) must(number uint32, in []byte, at, out int) []byte {
	f.t.Helper()
	no, b := f.do(number, in, at, out)
	if no != 0 {
		f.t.Fatalf("command %d of connection management: %v", number, no)
	}
	return b
}

func (f cmFile) id(space uint16) uint32 {
	f.t.Helper()
	b := f.must(uapi.CMCreateID, uapi.Bytes(&uapi.CMCreate{PS: space}), 8, 4)
	return binary.NativeEndian.Uint32(b)
}

// event waits for the next event.
func (f cmFile) event(want uint32) uapi.CMEvent {
	f.t.Helper()
	var e uapi.CMEvent
	eventually(f.t, "an event", func() bool {
		no, b := f.do(uapi.CMGetEvent, uapi.Bytes(&uapi.Response{}), 0, uapi.Size[uapi.CMEvent]())
		if no == syscall.EAGAIN {
			return false
		}
		if no != 0 {
			f.t.Fatal(no)
		}
		e, _ = uapi.Parse[uapi.CMEvent](b)
		return true
	})
	if e.Event != want {
		f.t.Fatalf("event %d, status %d; want event %d", e.Event, int32(e.Status), want)
	}
	return e
}

// The events that connecting gives (rdma_cm_event_type).
const (
	cmAddrResolved, cmRouteResolved, cmConnectRequest, cmEstablished = 0, 2, 4, 9
)

// listen makes a listener on an address and gives its port.
func (f cmFile) listen(at netip.Addr) (id uint32, port uint16) {
	f.t.Helper()
	id = f.id(0x106)
	bind := uapi.CMBindCmd{ID: id, AddrSize: 16}
	uapi.PutAddr(bind.Addr[:], netip.AddrPortFrom(at, 0))
	f.must(uapi.CMBind, uapi.Bytes(&bind), 0, 0)
	f.must(uapi.CMListen, uapi.Bytes(&uapi.CMPair{ID: id, Arg: 5}), 0, 0)
	r, _ := uapi.Parse[uapi.CMRoute](f.must(uapi.CMQueryRoute, uapi.Bytes(&uapi.CMByID{ID: id}), 0, uapi.Size[uapi.CMRoute]()))
	return id, binary.BigEndian.Uint16(r.Src[2:])
}

// resolve makes an id that knows its way to a peer.
func (f cmFile) resolve(peer netip.AddrPort) uint32 {
	f.t.Helper()
	id := f.id(0x106)
	q := uapi.CMResolveAddrCmd{ID: id, TimeoutMS: 1000, DstSize: 16}
	uapi.PutAddr(q.Dst[:], peer)
	f.must(uapi.CMResolveAddr, uapi.Bytes(&q), 0, 0)
	f.event(cmAddrResolved)
	f.must(uapi.CMResolveRoute, uapi.Bytes(&uapi.CMPair{ID: id, Arg: 1000}), 0, 0)
	f.event(cmRouteResolved)
	return id
}

// connectSIW connects two queue pairs of a client as librdmacm does.
func connectSIW(f cmFile, at netip.Addr, a, b *siwSide) {
	f.t.Helper()
	connectIWARP(f, at, a.f, [2]uint32{a.handle, b.handle}, [2]uint32{a.qpn, b.qpn})
}

// connectIWARP is connectSIW of queue pairs by handle and number.
func connectIWARP(f cmFile, at netip.Addr, file *devFile, handles, numbers [2]uint32) {
	f.t.Helper()
	_, port := f.listen(at)
	id := f.resolve(netip.AddrPortFrom(at, port))
	for _, handle := range handles {
		m, _ := uapi.Parse[uapi.QPAttr](f.must(uapi.CMInitQPAttr, uapi.Bytes(&uapi.CMByID{ID: id, Arg: uint32(qp.Init)}), 0, uapi.Size[uapi.QPAttr]()))
		q := uapi.ModifyQP{QPHandle: handle, AttrMask: m.Mask, State: uint8(m.State), AccessFlags: m.AccessFlags, PortNum: m.PortNum}
		if no, _, _ := file.command(uapi.CmdModifyQP, uapi.Bytes(&q), nil, 0); no != 0 {
			f.t.Fatal(no)
		}
	}
	conn := uapi.ConnParam{ResponderResources: 4, InitiatorDepth: 4, Valid: 1}
	conn.QPN = numbers[0]
	f.must(uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{Conn: conn, ID: id}), 0, 0)
	e := f.event(cmConnectRequest)
	conn.QPN = numbers[1]
	f.must(uapi.CMAccept, uapi.Bytes(&uapi.CMAcceptCmd{Conn: conn, ID: e.ID}), 0, 0)
	f.event(cmEstablished)
	f.event(cmEstablished)
}

// newSIWPair connects two queue pairs of one client on the server's first device.
func newSIWPair(t *testing.T, s *Server) (a, b *siwSide) {
	t.Helper()
	c := newTestClient(t, s)
	f := c.open("uverbs0")
	told, b8, fds := do[uapi.GetContextResp](f, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 16)
	unix.Close(fds[0])
	if told.NumCompVectors != 1 || len(b8) != 16 {
		t.Fatalf("context %+v", told)
	}
	a, b = newSIW(f, 0x1000), newSIW(f, 0x2000)
	connectSIW(cmFile{c.open("rdma_cm")}, s.cfg.Devices[0].Addr().Addr(), a, b)
	return a, b
}

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
		t.Error("what was received is not what was sent")
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
		t.Error("what was read is not what was written")
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
// not taken yet: whatever the order, all are carried out.
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
		t.Error("a queue pair without a connection took a doorbell")
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
		t.Error("an event that nobody asked for")
	}
	b.arm(queue.ArmSolicited | queue.ArmCompletion)
	send(0)
	event()
	send(0)
	if readable(b.channel) {
		t.Error("one arming gave two events")
	}
	b.arm(queue.ArmSolicited)
	send(0)
	if readable(b.channel) {
		t.Error("an event for a SEND that was not solicited")
	}
	send(queue.SIWSolicited)
	event()
}

// A queue of completions that nobody takes overflows; it fails its queue pair.
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
		t.Error("a completion behind the overflow")
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
