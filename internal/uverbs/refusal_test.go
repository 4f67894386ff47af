//go:build linux

package uverbs

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/qp"
)

func TestCommandsRefusedHaveTheKernelsErrno(t *testing.T) {
	s := newServer(t, "127.14.1.1")
	f := newClient(t, s).open("uverbs0")
	_, _, fds := do[getContextResp](f, cmdGetContext, bytesOf(&response{}), 8)
	unix.Close(fds[0])
	pd, _, _ := do[handleOnly](f, cmdAllocPD, bytesOf(&response{}), 4)
	cq, _, _ := do[createCQResp](f, cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: -1}), 24)
	at := addrOf(f.mem)
	mr := func(m regMR) []byte { return bytesOf(&m) }
	pair := func(q exCreateQPBase) []byte { return bytesOf(&createQP{ExCreateQPBase: q}) }
	for name, c := range map[string]struct {
		number uint32
		core   []byte
		out    int
		want   syscall.Errno
	}{
		"unknown command":          {200, make([]byte, 8), 0, syscall.EOPNOTSUPP},
		"context twice":            {cmdGetContext, bytesOf(&response{}), 8, syscall.EINVAL},
		"command too short":        {cmdRegMR, make([]byte, 16), 12, syscall.ENOSPC},
		"no room for the answer":   {cmdQueryDevice, bytesOf(&response{}), 8, syscall.ENOSPC},
		"port 2":                   {cmdQueryPort, bytesOf(&queryPort{PortNum: 2}), 40, syscall.EINVAL},
		"no such PD":               {cmdDeallocPD, bytesOf(&handleOnly{Handle: 99}), 0, syscall.EINVAL},
		"a CQ is no PD":            {cmdDeallocPD, bytesOf(&handleOnly{Handle: cq.CQHandle}), 0, syscall.EINVAL},
		"region without a PD":      {cmdRegMR, mr(regMR{Start: at, HCAVA: at, Length: 10, PDHandle: 99}), 12, syscall.EINVAL},
		"region of nothing":        {cmdRegMR, mr(regMR{Start: at, HCAVA: at, PDHandle: pd.Handle}), 12, syscall.EINVAL},
		"region that wraps":        {cmdRegMR, mr(regMR{Start: at, HCAVA: at, Length: ^uint64(0), PDHandle: pd.Handle}), 12, syscall.EINVAL},
		"region elsewhere in page": {cmdRegMR, mr(regMR{Start: at, HCAVA: at + 1, Length: 10, PDHandle: pd.Handle}), 12, syscall.EINVAL},
		"region on demand":         {cmdRegMR, mr(regMR{Start: at, HCAVA: at, Length: 10, PDHandle: pd.Handle, AccessFlags: 64}), 12, syscall.EOPNOTSUPP},
		"region not mapped":        {cmdRegMR, mr(regMR{Start: 4096, HCAVA: 4096, Length: 10, PDHandle: pd.Handle}), 12, syscall.EFAULT},
		"remote but not local write": {
			cmdRegMR, mr(regMR{Start: at, HCAVA: at, Length: 10, PDHandle: pd.Handle, AccessFlags: uint32(qp.RemoteWrite)}), 12, syscall.EINVAL,
		},
		"window of type 3":       {cmdAllocMW, bytesOf(&allocMW{PDHandle: pd.Handle, Type: 3}), 8, syscall.EINVAL},
		"queue of no entries":    {cmdCreateCQ, bytesOf(&createCQ{CompChannel: -1}), 24, syscall.EINVAL},
		"queue too deep":         {cmdCreateCQ, bytesOf(&createCQ{CQE: maxCQE + 1, CompChannel: -1}), 24, syscall.EINVAL},
		"channel that is a file": {cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: 0}), 24, syscall.EBADF},
		"channel of no number":   {cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: 1 << 30}), 24, syscall.EBADF},
		"queue pair without CQ":  {cmdCreateQP, pair(exCreateQPBase{PDHandle: pd.Handle, SendCQ: 99, RecvCQ: 99, Type: 2}), 64, syscall.EINVAL},
		"raw queue pair": {
			cmdCreateQP, pair(exCreateQPBase{PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle, Type: 8}), 64, syscall.EOPNOTSUPP,
		},
		"queue pair too deep": {
			cmdCreateQP, pair(exCreateQPBase{PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle, Type: 2, MaxSendWR: 1 << 30}), 64, syscall.EINVAL,
		},
		"doorbell of nothing":     {cmdPostSend, bytesOf(&postSend{QPHandle: 99}), 4, syscall.EINVAL},
		"address without a route": {cmdCreateAH, bytesOf(&createAH{PDHandle: pd.Handle, Attr: ahAttr{PortNum: 1}}), 4, syscall.EINVAL},
	} {
		if no, _, _ := f.command(c.number, c.core, nil, c.out); no != c.want {
			t.Errorf("%s: found %v, want %v", name, no, c.want)
		}
	}
	if no, _, _ := f.command(cmdDeallocPD, bytesOf(&pd), nil, 0); no != 0 {
		t.Errorf("something was left in the PD: %v", no)
	}
}

func TestAnswerToUnmappedMemoryLeavesNothing(t *testing.T) {
	s := newServer(t, "127.14.1.2")
	f := newClient(t, s).open("uverbs0")
	body := response{Response: 4096}
	h := cmdHeader{Command: cmdAllocPD, InWords: 4, OutWords: 1}
	if n, _, _ := f.write(append(bytesOf(&h), bytesOf(&body)...)); n != -int64(syscall.EFAULT) {
		t.Errorf("found %d", n)
	}
	if c := s.Count(); c.Objects != 0 {
		t.Errorf("%+v left", c)
	}
	if c := s.cfg.Devices[0].Counts(); c.PD != 0 {
		t.Errorf("%d protection domains left", c.PD)
	}
}

func TestRequestsRefused(t *testing.T) {
	s := newServer(t, "127.14.1.3")
	c := newClient(t, s)
	for name, x := range map[string]struct {
		r    request
		data string
		want syscall.Errno
	}{
		"another version": {request{Version: 99, Op: opOpen}, "uverbs0", syscall.EPROTO},
		"no such device":  {request{Op: opOpen}, "uverbs1", syscall.ENOENT},
		"no such file":    {request{Op: opWrite, File: 12345}, "", syscall.EIO},
	} {
		if p, _ := c.send(x.r, []byte(x.data)); p.Result != -int64(x.want) {
			t.Errorf("%s: found %d, want %v", name, p.Result, x.want)
		}
	}
	f := c.open("uverbs0")
	for name, x := range map[string]struct {
		r    request
		want syscall.Errno
	}{
		"ioctl":                   {request{Op: opIoctl, Arg: [4]uint64{0xc0181b01}}, syscall.ENOTTY},
		"read":                    {request{Op: opRead}, syscall.EINVAL},
		"mmap of nothing":         {request{Op: opMmap, Arg: [4]uint64{0, 4096}}, syscall.EINVAL},
		"command too long":        {request{Op: opWrite, Arg: [4]uint64{addrOf(c.mem), maxCommand + 1}}, syscall.EINVAL},
		"command that is nowhere": {request{Op: opWrite, Arg: [4]uint64{4096, 1000}}, syscall.EFAULT},
		"another call":            {request{Op: 77}, syscall.ENOSYS},
	} {
		x.r.File = f.id
		if p, fds := c.send(x.r, nil); p.Result != -int64(x.want) || len(fds) != 0 {
			t.Errorf("%s: found %d with %d descriptors, want %v", name, p.Result, len(fds), x.want)
		}
	}
	if _, err := c.conn.Write([]byte("short")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1024)
	n, err := c.conn.Read(buf)
	if p, _ := parse[reply](buf[:n]); err != nil || p.Result != -int64(syscall.EPROTO) {
		t.Errorf("a short message gave %+v, %v", p, err)
	}
}

func TestRingIsMappedOnceAndCannotShrink(t *testing.T) {
	s := newServer(t, "127.14.1.4")
	f := newClient(t, s).open("uverbs0")
	_, b, _ := do[createCQResp](f, cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: -1}), 24)
	mi, _ := parse[mmInfo](b[8:])
	r := request{Op: opMmap, File: f.id, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}
	p, fds := f.send(r, nil)
	if p.Result != 0 || len(fds) != 1 {
		t.Fatalf("%+v", p)
	}
	defer unix.Close(fds[0])
	if err := unix.Ftruncate(fds[0], 0); err != syscall.EPERM {
		t.Errorf("shortening the ring gave %v", err)
	}
	if p, _ := f.send(r, nil); p.Result != -int64(syscall.EINVAL) {
		t.Errorf("the second time gave %d", p.Result)
	}
}

func TestConnectionCommands(t *testing.T) {
	s := newServer(t, "127.14.1.5")
	f := newClient(t, s).open("rdma_cm")
	create := func(uid uint64, ps uint16) uint32 {
		t.Helper()
		q := ucmCreate{UID: uid, PS: ps}
		to := f.alloc(4)
		q.Response = addrOf(to)
		if n := f.ucm(ucmCreateID, bytesOf(&q), 4); n != 0 {
			t.Fatalf("create: %v", n)
		}
		return binary.NativeEndian.Uint32(to)
	}
	sockaddr := func(last byte, port uint16) (a sockaddrIn6) {
		binary.NativeEndian.PutUint16(a[:], syscall.AF_INET)
		binary.BigEndian.PutUint16(a[2:], port)
		copy(a[4:], []byte{127, 14, 1, last})
		return a
	}
	ev := f.alloc(size[ucmEvent]())
	get := func() (e ucmEvent, no syscall.Errno) {
		no = f.ucm(ucmGetEvent, bytesOf(&response{Response: addrOf(ev)}), len(ev))
		e, _ = parse[ucmEvent](ev)
		return e, no
	}
	wait := func(event uint32) ucmEvent {
		t.Helper()
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
			t.Fatalf("waiting for event %d: %v", event, err)
		}
		e, no := get()
		if no != 0 || e.Event != event {
			t.Fatalf("found event %d, status %d (%v), want %d", e.Event, int32(e.Status), no, event)
		}
		return e
	}
	if _, no := get(); no != syscall.EAGAIN {
		t.Errorf("no event gave %v", no)
	}
	listener := create(0xaaa, 0x106)
	if n := f.ucm(ucmBindIP, bytesOf(&ucmBindIPCmd{ID: listener, Addr: sockaddr(77, 7777)}), 0); n != syscall.EADDRNOTAVAIL {
		t.Errorf("binding to another address gave %v", n)
	}
	if n := f.ucm(ucmBindIP, bytesOf(&ucmBindIPCmd{ID: listener, Addr: sockaddr(5, 7777)}), 0); n != 0 {
		t.Fatal(n)
	}
	if n := f.ucm(ucmListen, bytesOf(&ucmPair{ID: listener, Arg: 5}), 0); n != 0 {
		t.Fatal(n)
	}
	// Linux takes the loopback address, where no device has it, for any (libfabric).
	any := create(0, 0x106)
	local := sockaddr(0, 7778)
	copy(local[4:], []byte{127, 0, 0, 1})
	if n := f.ucm(ucmBindIP, bytesOf(&ucmBindIPCmd{ID: any, Addr: local}), 0); n != 0 {
		t.Errorf("binding to the loopback address gave %v", n)
	}
	second := create(0, 0x106)
	if n := f.ucm(ucmBindIP, bytesOf(&ucmBindIPCmd{ID: second, Addr: sockaddr(5, 7777)}), 0); n != syscall.EADDRINUSE {
		t.Errorf("binding twice gave %v", n)
	}
	id := create(0xbbb, 0x106)
	if n := f.ucm(ucmResolveIP, bytesOf(&ucmResolveIPCmd{ID: id, Dst: sockaddr(5, 7777)}), 0); n != 0 {
		t.Fatal(n)
	}
	if e := wait(0); e.UID != 0xbbb || e.ID != id {
		t.Errorf("address resolved: %+v", e)
	}
	if n := f.ucm(ucmResolveRoute, bytesOf(&ucmPair{ID: id}), 0); n != 0 {
		t.Fatal(n)
	}
	wait(2)
	to := f.alloc(size[ucmRoute]())
	if n := f.ucm(ucmQueryRoute, bytesOf(&ucmByID{Response: addrOf(to), ID: id}), len(to)); n != 0 {
		t.Fatal(n)
	}
	route, _ := parse[ucmRoute](to)
	if route.NumPaths != 1 || route.PortNum != 1 || route.NodeGUID != s.devices[0].guid() || route.Path[0].DGID != s.cfg.Devices[0].GID() {
		t.Errorf("route: %+v", route)
	}
	conn := connParam{QPN: 0x123, RetryCount: 7, Valid: 1, PrivateLen: 5}
	copy(conn.Private[:], "hello")
	if n := f.ucm(ucmConnect, bytesOf(&ucmConnectCmd{Conn: conn, ID: id}), 0); n != 0 {
		t.Fatal(n)
	}
	e := wait(4)
	p, _ := parse[connParam](e.Param[:])
	if e.UID != 0xaaa || e.ID == listener || p.QPN != 0x123 || string(p.Private[:5]) != "hello" {
		t.Errorf("request: %+v of %+v", p, e)
	}
	if n := f.ucm(ucmReject, bytesOf(&ucmRejectCmd{ID: e.ID, PrivateLen: 2, Private: [256]byte{'n', 'o'}}), 0); n != 0 {
		t.Fatal(n)
	}
	r := wait(8)
	if p, _ = parse[connParam](r.Param[:]); r.UID != 0xbbb || r.Status != 28 || string(p.Private[:2]) != "no" {
		t.Errorf("rejection: %+v of %+v", p, r)
	}
	reported := f.alloc(4)
	if n := f.ucm(ucmDestroyID, bytesOf(&ucmByID{Response: addrOf(reported), ID: id}), 4); n != 0 || binary.NativeEndian.Uint32(reported) != 3 {
		t.Errorf("destroyed with %v, %d events; three were read", n, binary.NativeEndian.Uint32(reported))
	}
	if n := f.ucm(ucmListen, bytesOf(&ucmPair{ID: id, Arg: 5}), 0); n != syscall.ENOENT {
		t.Errorf("an id that is gone gave %v", n)
	}
}

// ucm writes a command of connection management.
func (f *devFile) ucm(number uint32, body []byte, out int) syscall.Errno {
	f.t.Helper()
	h := ucmHeader{Command: number, In: uint16(len(body)), Out: uint16(out)}
	n, _, p := f.write(append(bytesOf(&h), body...))
	if n < 0 {
		if (p.Flags&replyWait != 0) != (n == -int64(syscall.EAGAIN)) {
			f.t.Errorf("command %d: answer %+v", number, p)
		}
		return syscall.Errno(-n)
	}
	return 0
}

// Programs send inline without having asked for room: Linux's Soft RoCE tells
// what a request's entries leave (rdma_xclient).
func TestQueuePairTellsAllOfItsInlineRoom(t *testing.T) {
	s := newServer(t, "127.14.1.3")
	f := newClient(t, s).open("uverbs0")
	pd, _, _ := do[handleOnly](f, cmdAllocPD, bytesOf(&response{}), 4)
	cq, _, _ := do[createCQResp](f, cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: -1}), 24)
	for _, c := range []struct{ sge, inline, wantSGE, wantInline uint32 }{
		{1, 0, 1, 16}, {2, 16, 2, 32}, {1, 64, 4, 64}, {0, 0, 0, 0}, {maxSGE, maxInline, maxSGE, maxInline},
	} {
		r, _, _ := do[createQPResp](f, cmdCreateQP, bytesOf(&createQP{ExCreateQPBase: exCreateQPBase{
			PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle, Type: uint8(qp.RC), MaxSendWR: 1, MaxSendSGE: c.sge, MaxInline: c.inline,
		}}), 64)
		if r.MaxSendSGE != c.wantSGE || r.MaxInline != c.wantInline {
			t.Errorf("%+v: found %d entries, %d bytes", c, r.MaxSendSGE, r.MaxInline)
		}
	}
}
