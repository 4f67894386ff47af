package verbs_test

import (
	"bytes"
	"errors"
	"testing"

	"softrdma/verbs"
)

// An xrcQueue is an XRC shared receive queue with its own protection domain, memory and CQ.
type xrcQueue struct {
	pd  *verbs.PD
	cq  *verbs.CQ
	buf []byte
	mr  *verbs.MR
	srq *verbs.SRQ
}

// An xrcPair is an initiator, and a target whose domain has two queues. Both are connected.
type xrcPair struct {
	*side  // the initiator
	far    *verbs.Device
	xrcd   *verbs.XRCD
	target *verbs.QP
	queues [2]*xrcQueue
}

const xrcSize = 32 << 10

func newXRCPair(t testing.TB, near, far *verbs.Device) *xrcPair {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	x := &xrcPair{side: &side{dev: near, buf: make([]byte, xrcSize)}, far: far}
	var err error
	x.pd, err = near.AllocPD()
	must(err)
	x.cq, err = near.CreateCQ(verbs.CQConfig{})
	must(err)
	x.mr, err = x.pd.RegisterMemory(x.buf, allRights)
	must(err)
	x.qp, err = x.pd.CreateQP(verbs.QPConfig{Type: verbs.XRCSend, SendCQ: x.cq})
	must(err)
	x.xrcd, err = far.OpenXRCD()
	must(err)
	for i := range x.queues {
		q := &xrcQueue{buf: make([]byte, xrcSize)}
		q.pd, err = far.AllocPD()
		must(err)
		q.cq, err = far.CreateCQ(verbs.CQConfig{})
		must(err)
		q.mr, err = q.pd.RegisterMemory(q.buf, allRights)
		must(err)
		q.srq, err = q.pd.CreateSRQ(verbs.SRQConfig{XRCD: x.xrcd, CQ: q.cq})
		must(err)
		x.queues[i] = q
	}
	x.connect(t)
	return x
}

// connect makes a target and connects the initiator to it.
func (x *xrcPair) connect(t testing.TB) {
	t.Helper()
	var err error
	if x.target, err = x.xrcd.CreateTarget(); err != nil {
		t.Fatal(err)
	}
	here, there := x.qp.Endpoint(), x.target.Endpoint()
	if err := errors.Join(x.target.Connect(there, here, verbs.ConnectConfig{}), x.qp.Connect(here, there, verbs.ConnectConfig{Timeout: 19})); err != nil {
		t.Fatal(err)
	}
}

// openXRC opens two devices and connects an initiator to a target.
func openXRC(t testing.TB, near, far string, cfg verbs.Config) *xrcPair {
	t.Helper()
	var d [2]*verbs.Device
	for i, addr := range []string{near, far} {
		d[i] = openDevice(t, addr, cfg)
		t.Cleanup(func() { d[i].Close() })
	}
	return newXRCPair(t, d[0], d[1])
}

// exercise does each operation with each queue.
func (x *xrcPair) exercise(t *testing.T) {
	t.Helper()
	fill(x.buf, 1)
	for round := range 20 {
		q := x.queues[round%2]
		n := []int{0, 8, 1000, 9000}[round%4]
		if err := q.srq.PostRecv(verbs.RecvWR{WRID: uint64(round), SGL: []verbs.SGE{q.mr.SGE(0, 10000)}}, verbs.RecvWR{WRID: 100}); err != nil {
			t.Fatal(err)
		}
		to := verbs.SendWR{Flags: verbs.Signaled, RemoteSRQN: q.srq.Number(), RemoteAddr: q.mr.Addr() + 16<<10, RKey: q.mr.RKey()}
		send, write, read, add := to, to, to, to
		send.Op, send.Imm, send.SGL = verbs.OpSendImm, uint32(round), []verbs.SGE{x.mr.SGE(0, n)}
		write.Op, write.Imm, write.SGL = verbs.OpWriteImm, 7, []verbs.SGE{x.mr.SGE(0, n)}
		read.Op, read.SGL = verbs.OpRead, []verbs.SGE{x.mr.SGE(16<<10, n)}
		add.Op, add.Add, add.RemoteAddr, add.SGL = verbs.OpFetchAdd, 3, q.mr.Addr()+30<<10, []verbs.SGE{x.mr.SGE(30<<10, 8)}
		x.post(t, send, write, read, add)
		for _, op := range []verbs.WCOp{verbs.WCSend, verbs.WCWrite, verbs.WCRead, verbs.WCFetchAdd} {
			x.ok(t, op)
		}
		far := &side{cq: q.cq}
		wc := far.ok(t, verbs.WCRecv)
		if wc.WRID != uint64(round) || wc.Imm != uint32(round) || int(wc.ByteLen) != n || wc.QPN != x.target.Number() {
			t.Fatalf("round %d: completion %+v", round, wc)
		}
		far.ok(t, verbs.WCRecvRDMAImm)
		x.target.State() // orders the memory for the race detector
		if !bytes.Equal(q.buf[:n], x.buf[:n]) || !bytes.Equal(q.buf[16<<10:][:n], x.buf[:n]) || !bytes.Equal(x.buf[16<<10:][:n], x.buf[:n]) {
			t.Fatalf("round %d: wrong bytes", round)
		}
		if got := q.buf[30<<10]; got != byte(3*(round/2+1)) {
			t.Fatalf("round %d: the word is %d", round, got)
		}
	}
}

func TestXRCOperationsReachTheQueuesTheyName(t *testing.T) {
	openXRC(t, "127.7.61.1", "127.7.61.2", verbs.Config{}).exercise(t)
}

func TestXRCOperationsOnSeveralLanes(t *testing.T) {
	if *overFabric {
		t.Skip("SKIPPED with -infiniband: a port has one lane")
	}
	x := openXRC(t, "127.7.62.1", "127.7.62.2", verbs.Config{Lanes: 4})
	for range 4 { // a target on each lane
		x.exercise(t)
		clear(x.queues[0].buf)
		clear(x.queues[1].buf)
		if err := x.qp.ToReset(); err != nil {
			t.Fatal(err)
		}
		x.connect(t)
	}
}

func TestXRCObjectsInUseRefuseToGo(t *testing.T) {
	x := openXRC(t, "127.7.63.1", "127.7.63.2", verbs.Config{})
	x.exercise(t)
	busy := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("%s: found %v, expected ErrBusy", what, err)
		}
	}
	gone := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	}
	busy("domain with queues", x.xrcd.Close())
	for _, q := range x.queues {
		busy("CQ of a queue", q.cq.Destroy())
		gone(q.srq.Destroy(), q.cq.Destroy(), q.mr.Deregister(), q.pd.Dealloc())
	}
	busy("domain with a target", x.xrcd.Close())
	gone(x.target.Destroy(), x.xrcd.Close(), x.xrcd.Close())
	if n := x.far.Counts(); n.QP != 0 || n.SRQ != 0 || n.CQ != 0 || n.PD != 0 {
		t.Errorf("left: %+v", n)
	}
	if _, err := x.xrcd.CreateTarget(); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("target of a closed domain: %v", err)
	}
}

func TestXRCDestroyedQueueIsRefusedToPeers(t *testing.T) {
	x := openXRC(t, "127.7.64.1", "127.7.64.2", verbs.Config{})
	x.exercise(t)
	q := x.queues[1] // the target's current queue
	number := q.srq.Number()
	if err := errors.Join(q.srq.Destroy(), q.cq.Destroy()); err != nil {
		t.Fatal(err)
	}
	x.post(t, verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{x.mr.SGE(0, 8)}, RemoteSRQN: number})
	if wc := x.one(t); wc.Status != verbs.RemInvReqErr {
		t.Errorf("found %v, expected a remote invalid request", wc.Status)
	}
	event(t, x.far, verbs.EventQPReqErr)
	if err := x.qp.ToReset(); err != nil {
		t.Fatal(err)
	}
	x.connect(t)
	if err := x.queues[0].srq.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{x.queues[0].mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	x.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{x.mr.SGE(0, 8)}, RemoteSRQN: x.queues[0].srq.Number()})
	x.ok(t, verbs.WCSend)
}

// A queue of another domain is refused, although its number exists.
func TestXRCQueueOfAnotherDomainIsRefused(t *testing.T) {
	x := openXRC(t, "127.7.65.1", "127.7.65.2", verbs.Config{})
	other, err := x.far.OpenXRCD()
	if err != nil {
		t.Fatal(err)
	}
	s, err := x.queues[0].pd.CreateSRQ(verbs.SRQConfig{XRCD: other, CQ: x.queues[0].cq})
	if err != nil {
		t.Fatal(err)
	}
	x.post(t, verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{x.mr.SGE(0, 8)}, RemoteSRQN: s.Number()})
	if wc := x.one(t); wc.Status != verbs.RemInvReqErr {
		t.Errorf("found %v, expected a remote invalid request", wc.Status)
	}
}

// The destination queue of messages is destroyed with its memory.
func TestXRCQueueDestroyedUnderTraffic(t *testing.T) {
	x := openXRC(t, "127.7.66.1", "127.7.66.2", verbs.Config{})
	for range 10 {
		q := x.queues[0]
		for range 64 {
			if err := q.srq.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{q.mr.SGE(0, xrcSize)}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 32 {
			x.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{x.mr.SGE(0, xrcSize)}, RemoteSRQN: q.srq.Number()})
		}
		x.ok(t, verbs.WCSend)
		if err := errors.Join(q.srq.Destroy(), q.cq.Destroy(), q.mr.Deregister()); err != nil {
			t.Fatal(err)
		}
		for range 31 {
			if wc := x.one(t); wc.Status != verbs.Success && wc.Status != verbs.RemInvReqErr && wc.Status != verbs.WRFlushErr {
				t.Fatalf("completion %v", wc.Err())
			}
		}
		var err error
		if q.cq, err = x.far.CreateCQ(verbs.CQConfig{}); err != nil {
			t.Fatal(err)
		}
		q.buf = make([]byte, xrcSize)
		if q.mr, err = q.pd.RegisterMemory(q.buf, allRights); err != nil {
			t.Fatal(err)
		}
		if q.srq, err = q.pd.CreateSRQ(verbs.SRQConfig{XRCD: x.xrcd, CQ: q.cq}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(x.qp.ToReset(), x.target.Destroy()); err != nil {
			t.Fatal(err)
		}
		x.connect(t)
	}
}

func TestXRCRefusesOtherAttributes(t *testing.T) {
	x := openXRC(t, "127.7.67.1", "127.7.67.2", verbs.Config{})
	list := []verbs.SGE{x.mr.SGE(0, 8)}
	for name, err := range map[string]error{
		"send without a queue":       x.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: list}),
		"send to a longer number":    x.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: list, RemoteSRQN: 1 << 24}),
		"receive at the initiator":   x.qp.PostRecv(verbs.RecvWR{SGL: list}),
		"receive at the target":      x.target.PostRecv(verbs.RecvWR{SGL: list}),
		"send at the target":         x.target.PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: list}),
		"an initiator with an SRQ":   createError(x.pd, verbs.QPConfig{Type: verbs.XRCSend, SendCQ: x.cq, RecvCQ: x.cq}),
		"an initiator with receives": createError(x.pd, verbs.QPConfig{Type: verbs.XRCSend, SendCQ: x.cq, MaxRecv: 1}),
		"RC with an XRC SRQ":         createError(x.queues[0].pd, verbs.QPConfig{Type: verbs.RC, SendCQ: x.queues[0].cq, SRQ: x.queues[0].srq}),
		"a target in a PD":           createError(x.pd, verbs.QPConfig{Type: verbs.XRCRecv, SendCQ: x.cq}),
		"a domain without a CQ":      srqError(x.queues[0].pd, verbs.SRQConfig{XRCD: x.xrcd}),
		"a CQ without a domain":      srqError(x.queues[0].pd, verbs.SRQConfig{CQ: x.queues[0].cq}),
		"another device's domain":    srqError(x.pd, verbs.SRQConfig{XRCD: x.xrcd, CQ: x.cq}),
		"selective acknowledges":     createError(x.pd, verbs.QPConfig{Type: verbs.XRCSend, SendCQ: x.cq, Recovery: verbs.SelectiveRepeat}),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	x.post(t, verbs.SendWR{Op: verbs.OpFlush, RemoteSRQN: x.queues[0].srq.Number(), RemoteAddr: x.queues[0].mr.Addr(), RKey: x.queues[0].mr.RKey(), Flush: verbs.Flush{Placement: verbs.GlobalVisibility, Length: 8}})
	if wc := x.one(t); wc.Status != verbs.LocQPOpErr {
		t.Errorf("FLUSH: %v", wc.Status)
	}
}

func createError(p *verbs.PD, c verbs.QPConfig) error {
	_, err := p.CreateQP(c)
	return err
}

func srqError(p *verbs.PD, c verbs.SRQConfig) error {
	_, err := p.CreateSRQ(c)
	return err
}

func TestXRCIsUnsupportedWhereTheDeviceHasNone(t *testing.T) {
	for _, addr := range []string{"iwarp:127.7.68.1"} {
		d := openDevice(t, addr, verbs.Config{})
		t.Cleanup(func() { d.Close() })
		if _, err := d.OpenXRCD(); !errors.Is(err, errors.ErrUnsupported) || d.Query().XRC {
			t.Errorf("%s: found %v", addr, err)
		}
	}
}
