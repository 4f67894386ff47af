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
	"softrdma/internal/uverbs/uapi"
)

// A datagrams is a UD queue pair of a client with its completion queue.
type datagrams struct {
	side
	pd uint32
}

// newDatagrams makes a queue pair that can send and receive.
func newDatagrams(f *devFile, user uint64) *datagrams {
	s := &datagrams{side: side{f: f, channel: -1, buf: f.alloc(4096)}}
	pd, _, _ := do[handleOnly](f, cmdAllocPD, bytesOf(&response{}), 4)
	cq, b, _ := do[createCQResp](f, cmdCreateCQ, bytesOf(&createCQ{UserHandle: user + 1, CQE: 100, CompChannel: -1}), 24)
	mi, _ := parse[mmInfo](b[8:])
	s.pd, s.cq, s.events = pd.Handle, cq.CQHandle, ring{f.mmap(mi)}
	q := createQP{ExCreateQPBase: exCreateQPBase{
		UserHandle: user, PDHandle: s.pd, SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: 1, MaxRecvSGE: 1,
		MaxInline: 64, Type: uint8(qp.UD),
	}}
	r, b, _ := do[createQPResp](f, cmdCreateQP, bytesOf(&q), 64)
	maps, _ := parse[rxeQP](b[32:])
	s.qpn, s.handle = r.QPN, r.QPHandle
	s.sq, s.rq = ring{f.mmap(maps.SQ)}, ring{f.mmap(maps.RQ)}
	m, _, _ := do[regMRResp](f, cmdRegMR, bytesOf(&regMR{
		Start: addrOf(s.buf), Length: uint64(len(s.buf)), HCAVA: addrOf(s.buf), PDHandle: s.pd, AccessFlags: rightsAll,
	}), 12)
	s.key = m.LKey
	for _, m := range []modifyQP{
		{AttrMask: uint32(qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskQKey), State: uint8(qp.Init), PortNum: 1, QKey: 0x11},
		{AttrMask: uint32(qp.MaskState), State: uint8(qp.RTR)},
		{AttrMask: uint32(qp.MaskState | qp.MaskSQPSN), State: uint8(qp.RTS)},
	} {
		m.QPHandle = s.handle
		if no, _, _ := f.command(cmdModifyQP, bytesOf(&m), nil, 0); no != 0 {
			f.t.Fatalf("to state %d: %v", m.State, no)
		}
	}
	return s
}

// address makes an address handle and gives its number.
func (s *datagrams) address(dgid [16]byte) uint32 {
	s.f.t.Helper()
	q := createAH{PDHandle: s.pd, Attr: ahAttr{IsGlobal: 1, PortNum: 1, GRH: globalRoute{DGID: dgid, HopLimit: 64}}}
	_, b, _ := do[handleOnly](s.f, cmdCreateAH, bytesOf(&q), 12)
	num, _ := parse[uint32](b[4:])
	return num
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
	a, b := newDatagrams(newClient(t, s).open("uverbs0"), 0x1000), newDatagrams(newClient(t, s).open("uverbs0"), 0x2000)
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

// Two programs, each with a device file: what one has, the other cannot name.
func twoPrograms(t *testing.T, addr string) (s *Server, mine, other *devFile) {
	t.Helper()
	s = newServer(t, addr)
	mine, other = newClient(t, s).open("uverbs0"), newClient(t, s).open("uverbs0")
	_, _, fds := do[getContextResp](mine, cmdGetContext, bytesOf(&response{}), 8)
	unix.Close(fds[0])
	return s, mine, other
}

func TestHandlesOfAnotherProgramAreRefused(t *testing.T) {
	s, mine, other := twoPrograms(t, "127.14.4.2")
	pd, _, _ := do[handleOnly](mine, cmdAllocPD, bytesOf(&response{}), 4)
	for range 20 { // so that the other's numbers are none of mine
		do[handleOnly](other, cmdAllocPD, bytesOf(&response{}), 4)
	}
	o := newSide(other, 0x1000)
	d := newDatagrams(other, 0x2000)
	q := createAH{PDHandle: d.pd, Attr: ahAttr{IsGlobal: 1, PortNum: 1, GRH: globalRoute{DGID: s.cfg.Devices[0].GID(), HopLimit: 64}}}
	ah, _, _ := do[handleOnly](other, cmdCreateAH, bytesOf(&q), 12)
	srq, _, _ := do[createSRQResp](other, cmdCreateSRQ, bytesOf(&createSRQ{PDHandle: d.pd, MaxWR: 4, MaxSGE: 1}), 40)
	mw, _, _ := do[allocMWResp](other, cmdAllocMW, bytesOf(&allocMW{PDHandle: d.pd, Type: 1}), 8)
	mr, _, _ := do[regMRResp](other, cmdRegMR, bytesOf(&regMR{
		Start: addrOf(other.mem), HCAVA: addrOf(other.mem), Length: 10, PDHandle: d.pd,
	}), 12)
	pair := exCreateQPBase{PDHandle: pd.Handle, SendCQ: o.cq, RecvCQ: o.cq, Type: uint8(qp.RC)}
	before := s.cfg.Devices[0].Counts()
	for name, c := range map[string]struct {
		number uint32
		core   []byte
		out    int
	}{
		"dealloc PD":       {cmdDeallocPD, bytesOf(&handleOnly{Handle: d.pd}), 0},
		"region in PD":     {cmdRegMR, bytesOf(&regMR{Start: addrOf(mine.mem), HCAVA: addrOf(mine.mem), Length: 10, PDHandle: d.pd}), 12},
		"deregister":       {cmdDeregMR, bytesOf(&handleOnly{Handle: mr.MRHandle}), 0},
		"window in PD":     {cmdAllocMW, bytesOf(&allocMW{PDHandle: d.pd, Type: 1}), 8},
		"free window":      {cmdDeallocMW, bytesOf(&handleOnly{Handle: mw.MWHandle}), 0},
		"address in PD":    {cmdCreateAH, bytesOf(&q), 12},
		"destroy address":  {cmdDestroyAH, bytesOf(&ah), 0},
		"resize CQ":        {cmdResizeCQ, bytesOf(&resizeCQ{CQHandle: o.cq, CQE: 10}), 24},
		"arm CQ":           {cmdReqNotifyCQ, bytesOf(&reqNotifyCQ{CQHandle: o.cq}), 0},
		"destroy CQ":       {cmdDestroyCQ, bytesOf(&destroy{Handle: o.cq}), 8},
		"QP on CQ":         {cmdCreateQP, bytesOf(&createQP{ExCreateQPBase: pair}), 64},
		"modify QP":        {cmdModifyQP, bytesOf(&modifyQP{QPHandle: o.handle, AttrMask: uint32(qp.MaskState), State: uint8(qp.Err)}), 0},
		"query QP":         {cmdQueryQP, bytesOf(&queryQP{QPHandle: o.handle}), size[queryQPResp]()},
		"doorbell of QP":   {cmdPostSend, bytesOf(&postSend{QPHandle: o.handle}), 4},
		"attach QP":        {cmdAttachMcast, bytesOf(&mcast{QPHandle: d.handle}), 0},
		"detach QP":        {cmdDetachMcast, bytesOf(&mcast{QPHandle: d.handle}), 0},
		"destroy QP":       {cmdDestroyQP, bytesOf(&destroy{Handle: o.handle}), 4},
		"SRQ in PD":        {cmdCreateSRQ, bytesOf(&createSRQ{PDHandle: d.pd, MaxWR: 4, MaxSGE: 1}), 40},
		"modify SRQ":       {cmdModifySRQ, bytesOf(&modifySRQ{SRQHandle: srq.SRQHandle, AttrMask: uapi.SRQLimit, SRQLimit: 1}), 0},
		"query SRQ":        {cmdQuerySRQ, bytesOf(&querySRQ{SRQHandle: srq.SRQHandle}), 16},
		"destroy SRQ":      {cmdDestroySRQ, bytesOf(&destroy{Handle: srq.SRQHandle}), 4},
		"CQ on its events": {cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: int32(o.channel)}), 24},
	} {
		want := syscall.EINVAL
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
	if n := s.devices[0].a.Trace.Counter(reason.CommandHandle); n != 21 {
		t.Errorf("%d times COMMAND_HANDLE", n)
	}
}

func TestRingsOfAnotherProgramAreNotMapped(t *testing.T) {
	_, mine, other := twoPrograms(t, "127.14.4.3")
	_, b, _ := do[createCQResp](other, cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: -1}), 24)
	mi, _ := parse[mmInfo](b[8:])
	if p, fds := mine.send(request{Op: opMmap, File: mine.id, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}, nil); p.Result != -int64(syscall.EINVAL) || len(fds) != 0 {
		t.Errorf("found %+v with %d descriptors", p, len(fds))
	}
	other.mmap(mi)
}

// Keys are those of a protection domain, whoever knows them.
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
	mine, other := newClient(t, s).open("rdma_cm"), newClient(t, s).open("rdma_cm")
	to := other.alloc(4)
	if n := other.ucm(ucmCreateID, bytesOf(&ucmCreate{PS: 0x106, Response: addrOf(to)}), 4); n != 0 {
		t.Fatal(n)
	}
	id, _ := parse[uint32](to)
	answer := addrOf(mine.alloc(1024))
	for name, c := range map[string]struct {
		number uint32
		body   []byte
		out    int
		want   syscall.Errno
	}{
		"destroy":    {ucmDestroyID, bytesOf(&ucmByID{Response: answer, ID: id}), 4, syscall.EINVAL},
		"bind":       {ucmBindIP, bytesOf(&ucmBindIPCmd{ID: id, Addr: sockaddrIn6{2}}), 0, syscall.EINVAL},
		"resolve":    {ucmResolveIP, bytesOf(&ucmResolveIPCmd{ID: id, Dst: sockaddrIn6{2, 0, 0, 1, 127, 14, 4, 5}}), 0, syscall.EINVAL},
		"route":      {ucmResolveRoute, bytesOf(&ucmPair{ID: id}), 0, syscall.EINVAL},
		"query":      {ucmQueryRoute, bytesOf(&ucmByID{Response: answer, ID: id}), size[ucmRoute](), syscall.EINVAL},
		"connect":    {ucmConnect, bytesOf(&ucmConnectCmd{ID: id}), 0, syscall.EINVAL},
		"listen":     {ucmListen, bytesOf(&ucmPair{ID: id}), 0, syscall.EINVAL},
		"accept":     {ucmAccept, bytesOf(&ucmAcceptCmd{ID: id}), 0, syscall.EINVAL},
		"reject":     {ucmReject, bytesOf(&ucmRejectCmd{ID: id}), 0, syscall.EINVAL},
		"disconnect": {ucmDisconnect, bytesOf(&ucmByID{ID: id, Response: uint64(id)}), 0, syscall.EINVAL},
		"attributes": {ucmInitQPAttr, bytesOf(&ucmByID{Response: answer, ID: id, Arg: 1}), size[qpAttr](), syscall.EINVAL},
		"option":     {ucmSetOption, bytesOf(&ucmOption{ID: id}), 0, syscall.EINVAL},
		"notify":     {ucmNotify, bytesOf(&ucmPair{ID: id, Arg: 4}), 0, syscall.EINVAL},
		"join":       {ucmJoinIPMcast, bytesOf(&ucmJoinIPCmd{Response: answer, ID: id, Addr: sockaddrIn6{2, 0, 0, 0, 239, 1, 1, 1}}), 4, syscall.EINVAL},
		"leave":      {ucmLeaveMcast, bytesOf(&ucmByID{Response: answer, ID: id}), 4, syscall.ENOENT},
		// The descriptor that it names must be of the file that the id is on.
		"migrate": {ucmMigrateID, bytesOf(&ucmByID{Response: answer, ID: id, Arg: uint32(mine.fd)}), 4, syscall.ENOENT},
	} {
		if n := mine.ucm(c.number, c.body, c.out); n != c.want {
			t.Errorf("%s gave %v", name, n)
		}
	}
	if n := s.Count(); n.Objects != 1 {
		t.Errorf("%+v", n)
	}
}

func TestDeviceFileIsItsUsersAlone(t *testing.T) {
	s := newServer(t, "127.14.4.6")
	f := newClient(t, s).open("uverbs0")
	s.mu.Lock()
	file := s.files[f.id]
	s.mu.Unlock()
	r := request{Op: opWrite}
	for _, p := range []*process{{uid: file.uid + 1, gid: file.gid}, {uid: file.uid, gid: file.gid + 1}} {
		if err := file.call(p, &r, nil, nil, &answer{}); !errors.Is(err, syscall.EACCES) {
			t.Errorf("user %d, group %d: %v", p.uid, p.gid, err)
		}
	}
}

// A connection that another process writes to, having inherited it, would have
// the wrong memory used.
func TestConnectionIsItsProcesssAlone(t *testing.T) {
	s := newServer(t, "127.14.4.7")
	c := newClient(t, s)
	inherited, err := c.conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	r := request{Version: protocol, Op: opOpen}
	cmd := exec.Command("/bin/sh", "-c", "cat >&3")
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(append(bytesOf(&r), "uverbs0"...)), []*os.File{inherited}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1024)
	n, err := c.conn.Read(b)
	if p, _ := parse[reply](b[:n]); err != nil || p.Result != -int64(syscall.EPERM) {
		t.Errorf("found %+v, %v", p, err)
	}
	if n := s.devices[0].a.Trace.Counter(reason.ClientProcess); n != 1 {
		t.Errorf("%d times CLIENT_PROCESS", n)
	}
	c.open("uverbs0")
}
