//go:build linux

package uverbs

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// A datagrams is a UD queue pair of a client with its completion queue.
type datagrams struct {
	side
	pd uint32
}

// newDatagrams makes a queue pair that can send and receive.
func newDatagrams(f *devFile, user uint64) *datagrams {
	s := &datagrams{side: side{f: f, channel: -1, buf: f.alloc(4096)}}
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	cq, b, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{UserHandle: user + 1, CQE: 100, CompChannel: -1}), 24)
	mi, _ := uapi.Parse[uapi.MmInfo](b[8:])
	s.pd, s.cq, s.events = pd.Handle, cq.CQHandle, ring{f.mmap(mi)}
	q := uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
		UserHandle: user, PDHandle: s.pd, SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: 1, MaxRecvSGE: 1,
		MaxInline: 64, Type: uint8(qp.UD),
	}}
	r, b, _ := do[uapi.CreateQPResp](f, uapi.CmdCreateQP, uapi.Bytes(&q), 64)
	maps, _ := uapi.Parse[uapi.RxeQP](b[32:])
	s.qpn, s.handle = r.QPN, r.QPHandle
	s.sq, s.rq = ring{f.mmap(maps.SQ)}, ring{f.mmap(maps.RQ)}
	m, _, _ := do[uapi.RegMRResp](f, uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{
		Start: addrOf(s.buf), Length: uint64(len(s.buf)), HCAVA: addrOf(s.buf), PDHandle: s.pd, AccessFlags: rightsAll,
	}), 12)
	s.key = m.LKey
	for _, m := range []uapi.ModifyQP{
		{AttrMask: uint32(qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskQKey), QPAttrs: uapi.QPAttrs{State: uint8(qp.Init), PortNum: 1, QKey: 0x11}},
		{AttrMask: uint32(qp.MaskState), QPAttrs: uapi.QPAttrs{State: uint8(qp.RTR)}},
		{AttrMask: uint32(qp.MaskState | qp.MaskSQPSN), QPAttrs: uapi.QPAttrs{State: uint8(qp.RTS)}},
	} {
		m.QPHandle = s.handle
		if no, _, _ := f.command(uapi.CmdModifyQP, uapi.Bytes(&m), nil, 0); no != 0 {
			f.t.Fatalf("to state %d: %v", m.State, no)
		}
	}
	return s
}

// address makes an address handle and returns its number.
func (s *datagrams) address(dgid [16]byte) uint32 {
	s.f.t.Helper()
	q := uapi.CreateAH{PDHandle: s.pd, Attr: uapi.AHAttr{IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{DGID: dgid, HopLimit: 64}}}
	_, b, _ := do[uapi.HandleOnly](s.f, uapi.CmdCreateAH, uapi.Bytes(&q), 12)
	num, _ := uapi.Parse[uint32](b[4:])
	return num
}

// sendAt is send by rdma-core before 39, which knows no numbers of handles.
func (s *datagrams) sendAt(dgid [16]byte, qpn uint32) {
	s.f.t.Helper()
	s.post(queue.Send, func(w *queue.SendWQE) {
		*w.UD() = queue.UD{RemoteQPN: qpn, RemoteQKey: 0x11, AV: queue.AV{NetworkType: 1, DGID: dgid, HopLimit: 64}}
	}, s.sge(0, 8))
}

// send posts a datagram to a queue pair behind an address handle.
func (s *datagrams) send(ah, qpn uint32) {
	s.f.t.Helper()
	s.post(queue.Send, func(w *queue.SendWQE) { *w.UD() = queue.UD{RemoteQPN: qpn, RemoteQKey: 0x11, AHNum: ah} }, s.sge(0, 8))
}

// failure waits for the next completion, whatever it is.
func (s *side) failure() queue.CQE {
	s.f.t.Helper()
	c := *s.events.consumer()
	eventually(s.f.t, "a completion", func() bool { return *s.events.producer() != c })
	*s.events.consumer() = (c + 1) & s.events.mask()
	return *(*queue.CQE)(s.events.slot(c))
}

// IBTA 10.2.3: an address handle is its protection domain's, whose queue
// pairs alone may use it. Its number is the device's, and easily guessed.
func TestAddressHandleOfAnotherProgramIsRefused(t *testing.T) {
	s := newServer(t, "127.14.4.1")
	a, b := newDatagrams(newTestClient(t, s).open("uverbs0"), 0x1000), newDatagrams(newTestClient(t, s).open("uverbs0"), 0x2000)
	own, other := a.address(s.cfg.Devices[0].GID()), b.address(s.cfg.Devices[0].GID())
	b.receive(b.sge(0, 1000))
	a.send(own, b.qpn)
	if e := a.completion(); e.Op != queue.WCSend {
		t.Errorf("completed as %+v", e)
	}
	b.completion()
	a.send(other, b.qpn)
	if e := a.failure(); e.Status != queue.LocQPOpErr || e.Reason != reason.AddressHandle {
		t.Errorf("completed as %v with reason %v", e.Status, e.Reason)
	}
}

// The old driver fills in a socket address without its family, so that only the GID names the peer.
func TestAddressVectorNamesOwnHandle(t *testing.T) {
	s := newServer(t, "127.14.4.60")
	a, b := newDatagrams(newTestClient(t, s).open("uverbs0"), 0x1000), newDatagrams(newTestClient(t, s).open("uverbs0"), 0x2000)
	gid := s.cfg.Devices[0].GID()
	a.address(gid)
	b.receive(b.sge(0, 1000))
	a.sendAt(gid, b.qpn)
	if e := a.completion(); e.Op != queue.WCSend {
		t.Errorf("completed as %+v", e)
	}
	b.completion()
	b.sendAt(gid, a.qpn) // without a handle of its own
	if e := b.failure(); e.Status != queue.LocQPOpErr || e.Reason != reason.AddressHandle {
		t.Errorf("completed as %v with reason %v", e.Status, e.Reason)
	}
}

// Two programs, each with a device file: what one has, the other cannot name.
func twoPrograms(t *testing.T, addr string) (s *Server, mine, other *devFile) {
	t.Helper()
	s = newServer(t, addr)
	mine, other = newTestClient(t, s).open("uverbs0"), newTestClient(t, s).open("uverbs0")
	_, _, fds := do[uapi.GetContextResp](mine, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
	unix.Close(fds[0])
	return s, mine, other
}

func TestHandlesOfAnotherProgramAreRefused(t *testing.T) {
	s, mine, other := twoPrograms(t, "127.14.4.2")
	pd, _, _ := do[uapi.HandleOnly](mine, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	for range 20 { // so that the other's numbers are none of mine
		do[uapi.HandleOnly](other, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	}
	o := newSide(other, 0x1000)
	d := newDatagrams(other, 0x2000)
	q := uapi.CreateAH{PDHandle: d.pd, Attr: uapi.AHAttr{IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{DGID: s.cfg.Devices[0].GID(), HopLimit: 64}}}
	ah, _, _ := do[uapi.HandleOnly](other, uapi.CmdCreateAH, uapi.Bytes(&q), 12)
	srq, _, _ := do[uapi.CreateSRQResp](other, uapi.CmdCreateSRQ, uapi.Bytes(&uapi.CreateSRQ{PDHandle: d.pd, MaxWR: 4, MaxSGE: 1}), 40)
	mw, _, _ := do[uapi.AllocMWResp](other, uapi.CmdAllocMW, uapi.Bytes(&uapi.AllocMW{PDHandle: d.pd, Type: 1}), 8)
	mr, _, _ := do[uapi.RegMRResp](other, uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{
		Start: addrOf(other.mem), HCAVA: addrOf(other.mem), Length: 10, PDHandle: d.pd,
	}), 12)
	pair := uapi.ExCreateQPBase{PDHandle: pd.Handle, SendCQ: o.cq, RecvCQ: o.cq, Type: uint8(qp.RC)}
	before := s.cfg.Devices[0].Counts()
	for name, c := range map[string]struct {
		number uint32
		core   []byte
		out    int
	}{
		"dealloc PD":       {uapi.CmdDeallocPD, uapi.Bytes(&uapi.HandleOnly{Handle: d.pd}), 0},
		"region in PD":     {uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{Start: addrOf(mine.mem), HCAVA: addrOf(mine.mem), Length: 10, PDHandle: d.pd}), 12},
		"deregister":       {uapi.CmdDeregMR, uapi.Bytes(&uapi.HandleOnly{Handle: mr.MRHandle}), 0},
		"window in PD":     {uapi.CmdAllocMW, uapi.Bytes(&uapi.AllocMW{PDHandle: d.pd, Type: 1}), 8},
		"free window":      {uapi.CmdDeallocMW, uapi.Bytes(&uapi.HandleOnly{Handle: mw.MWHandle}), 0},
		"address in PD":    {uapi.CmdCreateAH, uapi.Bytes(&q), 12},
		"destroy address":  {uapi.CmdDestroyAH, uapi.Bytes(&ah), 0},
		"resize CQ":        {uapi.CmdResizeCQ, uapi.Bytes(&uapi.ResizeCQ{CQHandle: o.cq, CQE: 10}), 24},
		"arm CQ":           {uapi.CmdReqNotifyCQ, uapi.Bytes(&uapi.ReqNotifyCQ{CQHandle: o.cq}), 0},
		"destroy CQ":       {uapi.CmdDestroyCQ, uapi.Bytes(&uapi.Destroy{Handle: o.cq}), 8},
		"QP on CQ":         {uapi.CmdCreateQP, uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: pair}), 64},
		"modify QP":        {uapi.CmdModifyQP, uapi.Bytes(&uapi.ModifyQP{QPHandle: o.handle, AttrMask: uint32(qp.MaskState), QPAttrs: uapi.QPAttrs{State: uint8(qp.Err)}}), 0},
		"query QP":         {uapi.CmdQueryQP, uapi.Bytes(&uapi.QueryQP{QPHandle: o.handle}), uapi.Size[uapi.QueryQPResp]()},
		"doorbell of QP":   {uapi.CmdPostSend, uapi.Bytes(&uapi.PostSend{QPHandle: o.handle}), 4},
		"attach QP":        {uapi.CmdAttachMcast, uapi.Bytes(&uapi.Mcast{QPHandle: d.handle}), 0},
		"detach QP":        {uapi.CmdDetachMcast, uapi.Bytes(&uapi.Mcast{QPHandle: d.handle}), 0},
		"destroy QP":       {uapi.CmdDestroyQP, uapi.Bytes(&uapi.Destroy{Handle: o.handle}), 4},
		"SRQ in PD":        {uapi.CmdCreateSRQ, uapi.Bytes(&uapi.CreateSRQ{PDHandle: d.pd, MaxWR: 4, MaxSGE: 1}), 40},
		"modify SRQ":       {uapi.CmdModifySRQ, uapi.Bytes(&uapi.ModifySRQ{SRQHandle: srq.SRQHandle, AttrMask: uapi.SRQLimit, SRQLimit: 1}), 0},
		"query SRQ":        {uapi.CmdQuerySRQ, uapi.Bytes(&uapi.QuerySRQ{SRQHandle: srq.SRQHandle}), 16},
		"destroy SRQ":      {uapi.CmdDestroySRQ, uapi.Bytes(&uapi.Destroy{Handle: srq.SRQHandle}), 4},
		"CQ on its events": {uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: int32(o.channel)}), 24},
	} {
		want := syscall.ENOENT
		if name == "CQ on its events" {
			want = syscall.EBADF
		}
		if no, _, _ := mine.command(c.number, c.core, nil, c.out); no != want {
			t.Errorf("%s: %v", name, no)
		}
	}
	if after := s.cfg.Devices[0].Counts(); after != before {
		t.Errorf("the device had %+v and has %+v", before, after)
	}
	if n := s.devices[0].Adapter.Trace.Counter(reason.CommandHandle); n != 21 {
		t.Errorf("%d times COMMAND_HANDLE", n)
	}
}

func TestRingsOfAnotherProgramAreNotMapped(t *testing.T) {
	_, mine, other := twoPrograms(t, "127.14.4.3")
	_, b, _ := do[uapi.CreateCQResp](other, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
	mi, _ := uapi.Parse[uapi.MmInfo](b[8:])
	if p, fds := mine.send(uapi.Request{Op: uapi.OpMmap, File: mine.id, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}, nil); p.Result != -int64(syscall.EINVAL) || len(fds) != 0 {
		t.Errorf("found %+v with %d descriptors", p, len(fds))
	}
	other.mmap(mi)
}

// A key is valid only in its protection domain, for all programs that know it.
func TestKeysOfAnotherProgramAreRefused(t *testing.T) {
	s, mine, other := twoPrograms(t, "127.14.4.4")
	gid := s.cfg.Devices[0].GID()
	o := newSide(other, 0x1000)
	copy(o.buf, "a secret")
	for name, c := range map[string]struct {
		op   queue.Op
		fill func(w *queue.SendWQE, a, b *side)
		sge  func(a *side) memory.SGE
		want queue.Status
	}{
		"local key": {queue.Write, func(w *queue.SendWQE, _, b *side) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: b.key} },
			func(*side) memory.SGE { return o.sge(0, 8) }, queue.LocProtErr},
		"key of a READ": {queue.Read, func(w *queue.SendWQE, _, _ *side) { *w.RDMA() = queue.RDMA{Addr: addrOf(o.buf), RKey: o.key} },
			func(a *side) memory.SGE { return a.sge(0, 8) }, queue.RemAccessErr},
		"key of a WRITE": {queue.Write, func(w *queue.SendWQE, _, _ *side) { *w.RDMA() = queue.RDMA{Addr: addrOf(o.buf), RKey: o.key} },
			func(a *side) memory.SGE { return a.sge(0, 8) }, queue.RemAccessErr},
		"key of an atomic": {queue.FetchAdd, func(w *queue.SendWQE, _, _ *side) {
			*w.Atomic() = queue.Atomic{Addr: addrOf(o.buf), CompareAdd: 1, RKey: o.key}
		}, func(a *side) memory.SGE { return a.sge(0, 8) }, queue.RemAccessErr},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newSide(mine, 0x2000), newSide(mine, 0x3000)
			a.connect(b.qpn, gid)
			b.connect(a.qpn, gid)
			a.post(c.op, func(w *queue.SendWQE) { c.fill(w, a, b) }, c.sge(a))
			if e := a.failure(); e.Status != c.want {
				t.Errorf("completed as %v with reason %v", e.Status, e.Reason)
			}
			if string(o.buf[:8]) != "a secret" || string(a.buf[:8]) == "a secret" || string(b.buf[:8]) == "a secret" {
				t.Error("the other program's memory was touched")
			}
		})
	}
}

func TestConnectionsOfAnotherProgramAreRefused(t *testing.T) {
	s := newServer(t, "127.14.4.5")
	mine, other := newTestClient(t, s).open("rdma_cm"), newTestClient(t, s).open("rdma_cm")
	to := other.alloc(4)
	if n := other.ucm(uapi.CMCreateID, uapi.Bytes(&uapi.CMCreate{PS: 0x106, Response: addrOf(to)}), 4); n != 0 {
		t.Fatal(n)
	}
	id, _ := uapi.Parse[uint32](to)
	answer := addrOf(mine.alloc(1024))
	for name, c := range map[string]struct {
		number uint32
		body   []byte
		out    int
		want   syscall.Errno
	}{
		"destroy":    {uapi.CMDestroyID, uapi.Bytes(&uapi.CMByID{Response: answer, ID: id}), 4, syscall.EINVAL},
		"bind":       {uapi.CMBindIP, uapi.Bytes(&uapi.CMBindIPCmd{ID: id, Addr: uapi.SockaddrIn6{2}}), 0, syscall.EINVAL},
		"resolve":    {uapi.CMResolveIP, uapi.Bytes(&uapi.CMResolveIPCmd{ID: id, Dst: uapi.SockaddrIn6{2, 0, 0, 1, 127, 14, 4, 5}}), 0, syscall.EINVAL},
		"route":      {uapi.CMResolveRoute, uapi.Bytes(&uapi.CMPair{ID: id}), 0, syscall.EINVAL},
		"query":      {uapi.CMQueryRoute, uapi.Bytes(&uapi.CMByID{Response: answer, ID: id}), uapi.Size[uapi.CMRoute](), syscall.EINVAL},
		"connect":    {uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{ID: id}), 0, syscall.EINVAL},
		"listen":     {uapi.CMListen, uapi.Bytes(&uapi.CMPair{ID: id}), 0, syscall.EINVAL},
		"accept":     {uapi.CMAccept, uapi.Bytes(&uapi.CMAcceptCmd{ID: id}), 0, syscall.EINVAL},
		"reject":     {uapi.CMReject, uapi.Bytes(&uapi.CMRejectCmd{ID: id}), 0, syscall.EINVAL},
		"disconnect": {uapi.CMDisconnect, uapi.Bytes(&uapi.CMByID{ID: id, Response: uint64(id)}), 0, syscall.EINVAL},
		"attributes": {uapi.CMInitQPAttr, uapi.Bytes(&uapi.CMByID{Response: answer, ID: id, Arg: 1}), uapi.Size[uapi.QPAttr](), syscall.EINVAL},
		"option":     {uapi.CMSetOption, uapi.Bytes(&uapi.CMOption{ID: id}), 0, syscall.EINVAL},
		"notify":     {uapi.CMNotify, uapi.Bytes(&uapi.CMPair{ID: id, Arg: 4}), 0, syscall.EINVAL},
		"join":       {uapi.CMJoinIPMcast, uapi.Bytes(&uapi.CMJoinIPCmd{Response: answer, ID: id, Addr: uapi.SockaddrIn6{2, 0, 0, 0, 239, 1, 1, 1}}), 4, syscall.EINVAL},
		"leave":      {uapi.CMLeaveMcast, uapi.Bytes(&uapi.CMByID{Response: answer, ID: id}), 4, syscall.ENOENT},
		// The descriptor that it names must be of the file that the id is on.
		"migrate": {uapi.CMMigrateID, uapi.Bytes(&uapi.CMByID{Response: answer, ID: id, Arg: uint32(mine.fd)}), 4, syscall.ENOENT},
	} {
		if n := mine.ucm(c.number, c.body, c.out); n != c.want {
			t.Errorf("%s: found %v", name, n)
		}
	}
	if n := s.Count(); n.Objects != 1 {
		t.Errorf("%+v", n)
	}
}

func TestDeviceFileBelongsToOneUser(t *testing.T) {
	s := newServer(t, "127.14.4.6")
	f := newTestClient(t, s).open("uverbs0")
	file := s.files.Find(f.id)
	r := uapi.Request{Op: uapi.OpWrite}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	for _, p := range []*client.Process{{UID: uid + 1, GID: gid}, {UID: uid, GID: gid + 1}} {
		if err := file.Call(p, &r, nil, &client.Answer{}); !errors.Is(err, syscall.EACCES) {
			t.Errorf("user %d, group %d: %v", p.UID, p.GID, err)
		}
	}
}

// A connection that another process writes to, having inherited it, would have
// the wrong memory used.
func TestConnectionBelongsToOneProcess(t *testing.T) {
	s := newServer(t, "127.14.4.7")
	c := newTestClient(t, s)
	inherited, err := c.conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	r := uapi.Request{Version: uapi.Protocol, Op: uapi.OpOpen}
	cmd := exec.Command("/bin/sh", "-c", "cat >&3")
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(append(uapi.Bytes(&r), "uverbs0"...)), []*os.File{inherited}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1024)
	n, err := c.conn.Read(b)
	if p, _ := uapi.Parse[uapi.Reply](b[:n]); err != nil || p.Result != -int64(syscall.EPERM) {
		t.Errorf("found %+v, %v", p, err)
	}
	if n := s.devices[0].Adapter.Trace.Counter(reason.ClientProcess); n != 1 {
		t.Errorf("%d times CLIENT_PROCESS", n)
	}
	c.open("uverbs0")
}
