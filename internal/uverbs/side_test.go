//go:build linux

package uverbs

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/uapi"
)

// A ring has the indexes of producer and consumer and the slots of a ring, as the rxe
// provider sees them.
type ring struct{ b []byte }

func (r ring) index(off int) *uint32 { return (*uint32)(unsafe.Pointer(&r.b[off])) }
func (r ring) log2() uint32          { return *r.index(0) }
func (r ring) mask() uint32          { return *r.index(4) }
func (r ring) producer() *uint32     { return r.index(128) }
func (r ring) consumer() *uint32     { return r.index(256) }
func (r ring) slot(i uint32) unsafe.Pointer {
	return unsafe.Pointer(&r.b[384+int(i&r.mask())<<r.log2()])
}

// A side is a queue pair of a client with its rings.
type side struct {
	f              *devFile
	qpn            uint32
	handle, cq, pd uint32
	sq, rq, events ring
	buf            []byte
	key            uint32
	channel        int
}

const rightsAll = uint32(qp.LocalWrite | qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.MWBind)

// newSide makes everything that a program makes for a queue pair.
func newSide(f *devFile, user uint64) *side { return newSideOf(f, user, 10) }

// newSideOf is newSide with as many requests in the ring.
func newSideOf(f *devFile, user uint64, requests uint32) *side {
	s := &side{f: f, channel: -1, buf: f.alloc(16384)}
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	s.pd = pd.Handle
	_, b, fds := do[uapi.HandleOnly](f, uapi.CmdCreateCompChannel, uapi.Bytes(&uapi.Response{}), 4)
	s.channel = fds[0]
	// The library has stored the number of the descriptor.
	binary.NativeEndian.PutUint32(b, uint32(s.channel))
	f.t.Cleanup(func() { unix.Close(s.channel) })
	cq, b, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{UserHandle: user + 1, CQE: 100, CompChannel: int32(s.channel)}), 24)
	mi, _ := uapi.Parse[uapi.MmInfo](b[8:])
	s.cq, s.events = cq.CQHandle, ring{f.mmap(mi)}
	q := uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
		UserHandle: user, PDHandle: pd.Handle, SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: requests, MaxRecvWR: 10, MaxSendSGE: 2, MaxRecvSGE: 2,
		MaxInline: 64, Type: uint8(qp.RC),
	}}
	r, b, _ := do[uapi.CreateQPResp](f, uapi.CmdCreateQP, uapi.Bytes(&q), 64)
	rings, _ := uapi.Parse[uapi.RxeQP](b[32:])
	s.qpn, s.handle = r.QPN, r.QPHandle
	s.sq, s.rq = ring{f.mmap(rings.SQ)}, ring{f.mmap(rings.RQ)}
	s.pd = pd.Handle
	s.key = s.registerAll(s.buf)
	return s
}

// registerAll registers memory with all rights, and returns its key.
func (s *side) registerAll(mem []byte) uint32 {
	s.f.t.Helper()
	r, no := s.register(addrOf(mem), uint64(len(mem)), qp.Access(rightsAll))
	if no != 0 {
		s.f.t.Fatalf("register %d bytes: %v", len(mem), no)
	}
	return r.LKey
}

// highPSN has bits beyond the 24 of a PSN, which Linux's drivers ignore.
const highPSN = 0xab000001

// connect takes the queue pair to RTS with a peer on the same device.
func (s *side) connect(peer uint32, dgid [16]byte) {
	for _, q := range []uapi.ModifyQP{
		{AttrMask: uint32(qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskAccess), QPAttrs: uapi.QPAttrs{State: uint8(qp.Init), PortNum: 1, AccessFlags: 0xf}},
		{
			AttrMask: uint32(qp.MaskState | qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN | qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer),
			QPAttrs:  uapi.QPAttrs{State: uint8(qp.RTR), PathMTU: 3, DestQPN: peer, RQPSN: highPSN, MaxDestRdAtomic: 4, MinRNRTimer: 12},
			Dest:     uapi.QPDest{DGID: dgid, IsGlobal: 1, PortNum: 1, HopLimit: 64, SL: 5},
		},
		{
			AttrMask: uint32(qp.MaskState | qp.MaskSQPSN | qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxRdAtomic),
			QPAttrs:  uapi.QPAttrs{State: uint8(qp.RTS), SQPSN: highPSN, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 4},
		},
	} {
		q.QPHandle = s.handle
		if no, _, _ := s.f.command(uapi.CmdModifyQP, uapi.Bytes(&q), nil, 0); no != 0 {
			s.f.t.Fatalf("to state %d: %v", q.State, no)
		}
	}
}

// post posts a request and rings the doorbell.
func (s *side) post(op queue.Op, fill func(w *queue.SendWQE), sge ...memory.SGE) {
	s.f.t.Helper()
	s.put(op, fill, sge...)
	if no, _, _ := s.f.command(uapi.CmdPostSend, uapi.Bytes(&uapi.PostSend{QPHandle: s.handle, WQESize: 128}), nil, 4); no != 0 {
		s.f.t.Fatalf("doorbell: %v", no)
	}
}

// put posts a request without a doorbell.
func (s *side) put(op queue.Op, fill func(w *queue.SendWQE), sge ...memory.SGE) {
	i := *s.sq.producer()
	w := (*queue.SendWQE)(s.sq.slot(i))
	*w = queue.SendWQE{WRID: uint64(op) + 100, Op: op, Flags: queue.Signaled, NumSGE: uint32(len(sge))}
	for k, e := range sge {
		w.Length += e.Length
		*(*memory.SGE)(unsafe.Add(s.sq.slot(i), queue.SendWQELen+16*k)) = e
	}
	if fill != nil {
		fill(w)
	}
	atomic.StoreUint32(s.sq.producer(), (i+1)&s.sq.mask())
}

func (s *side) receive(sge memory.SGE) {
	i := *s.rq.producer()
	*(*queue.RecvWQE)(s.rq.slot(i)) = queue.RecvWQE{WRID: 7, NumSGE: 1}
	*(*memory.SGE)(unsafe.Add(s.rq.slot(i), queue.RecvWQELen)) = sge
	*s.rq.producer() = (i + 1) & s.rq.mask()
}

// completion waits for the next completion, which must be of a success.
func (s *side) completion() queue.CQE {
	s.f.t.Helper()
	c := *s.events.consumer()
	eventually(s.f.t, "a completion", func() bool { return *s.events.producer() != c })
	e := *(*queue.CQE)(s.events.slot(c))
	*s.events.consumer() = (c + 1) & s.events.mask()
	if e.Status != queue.Success {
		s.f.t.Fatalf("completion: %v %v", e.Status, e.Reason)
	}
	return e
}

func (s *side) sge(off, n int) memory.SGE {
	return memory.SGE{Addr: addrOf(s.buf[off:]), Length: uint32(n), LKey: s.key}
}

// newPair connects two queue pairs of one client.
func newPair(t *testing.T, s *Server) (a, b *side) { return newPairOf(t, s, 10) }

// newPairOf is newPair with as many requests in a ring.
func newPairOf(t *testing.T, s *Server, requests uint32) (a, b *side) {
	f := newTestClient(t, s).open("uverbs0")
	_, _, fds := do[uapi.GetContextResp](f, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
	unix.Close(fds[0])
	a, b = newSideOf(f, 0x1000, requests), newSideOf(f, 0x2000, requests)
	dgid := s.cfg.Devices[0].GID()
	a.connect(b.qpn, dgid)
	b.connect(a.qpn, dgid)
	return a, b
}
