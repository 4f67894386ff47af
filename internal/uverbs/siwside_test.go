//go:build linux

package uverbs

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/uapi"
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
	no, _, _ := s.f.command(uapi.CmdModifyQP, uapi.Bytes(&uapi.ModifyQP{QPHandle: s.handle, AttrMask: uint32(qp.MaskState), QPAttrs: uapi.QPAttrs{State: uint8(to)}}), nil, 0)
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

// listen makes a listener on an address and returns its port.
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
		q := uapi.ModifyQP{QPHandle: handle, AttrMask: m.Mask, QPAttrs: uapi.QPAttrs{State: uint8(m.State), AccessFlags: m.AccessFlags, PortNum: m.PortNum}}
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
