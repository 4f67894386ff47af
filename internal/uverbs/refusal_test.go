//go:build linux

package uverbs

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/qp"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

func TestCommandsRefusedHaveTheKernelsErrno(t *testing.T) {
	s := newServer(t, "127.14.1.1")
	f := newTestClient(t, s).open("uverbs0")
	_, _, fds := do[uapi.GetContextResp](f, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
	unix.Close(fds[0])
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	cq, _, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
	at := addrOf(f.mem)
	mr := func(m uapi.RegMR) []byte { return uapi.Bytes(&m) }
	pair := func(q uapi.ExCreateQPBase) []byte { return uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: q}) }
	for name, c := range map[string]struct {
		number uint32
		core   []byte
		out    int
		want   syscall.Errno
	}{
		"unknown command":          {200, make([]byte, 8), 0, syscall.EOPNOTSUPP},
		"context twice":            {uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8, syscall.EINVAL},
		"command too short":        {uapi.CmdRegMR, make([]byte, 16), 12, syscall.ENOSPC},
		"no room for the answer":   {uapi.CmdQueryDevice, uapi.Bytes(&uapi.Response{}), 8, syscall.ENOSPC},
		"port 2":                   {uapi.CmdQueryPort, uapi.Bytes(&uapi.QueryPort{PortNum: 2}), 40, syscall.EINVAL},
		"no such PD":               {uapi.CmdDeallocPD, uapi.Bytes(&uapi.HandleOnly{Handle: 99}), 0, syscall.ENOENT},
		"a CQ is no PD":            {uapi.CmdDeallocPD, uapi.Bytes(&uapi.HandleOnly{Handle: cq.CQHandle}), 0, syscall.EINVAL},
		"region without a PD":      {uapi.CmdRegMR, mr(uapi.RegMR{Start: at, HCAVA: at, Length: 10, PDHandle: 99}), 12, syscall.ENOENT},
		"region that wraps":        {uapi.CmdRegMR, mr(uapi.RegMR{Start: at, HCAVA: at, Length: ^uint64(0), PDHandle: pd.Handle}), 12, syscall.EINVAL},
		"region elsewhere in page": {uapi.CmdRegMR, mr(uapi.RegMR{Start: at, HCAVA: at + 1, Length: 10, PDHandle: pd.Handle}), 12, syscall.EINVAL},
		"region for persistence":   {uapi.CmdRegMR, mr(uapi.RegMR{Start: at, HCAVA: at, Length: 10, PDHandle: pd.Handle, AccessFlags: 1 << 9}), 12, syscall.EOPNOTSUPP},
		"region not mapped":        {uapi.CmdRegMR, mr(uapi.RegMR{Start: 4096, HCAVA: 4096, Length: 10, PDHandle: pd.Handle}), 12, syscall.EFAULT},
		"remote but not local write": {
			uapi.CmdRegMR, mr(uapi.RegMR{Start: at, HCAVA: at, Length: 10, PDHandle: pd.Handle, AccessFlags: uint32(qp.RemoteWrite)}), 12, syscall.EINVAL,
		},
		"window of type 3":       {uapi.CmdAllocMW, uapi.Bytes(&uapi.AllocMW{PDHandle: pd.Handle, Type: 3}), 8, syscall.EINVAL},
		"queue of no entries":    {uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CompChannel: -1}), 24, syscall.EINVAL},
		"queue too deep":         {uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: device.MaxCQE + 1, CompChannel: -1}), 24, syscall.EINVAL},
		"channel that is a file": {uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: 0}), 24, syscall.EBADF},
		"channel of no number":   {uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: 1 << 30}), 24, syscall.EBADF},
		"queue pair without CQ":  {uapi.CmdCreateQP, pair(uapi.ExCreateQPBase{PDHandle: pd.Handle, SendCQ: 99, RecvCQ: 99, Type: 2}), 64, syscall.ENOENT},
		"raw queue pair": {
			uapi.CmdCreateQP, pair(uapi.ExCreateQPBase{PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle, Type: 8}), 64, syscall.EOPNOTSUPP,
		},
		"queue pair too deep": {
			uapi.CmdCreateQP, pair(uapi.ExCreateQPBase{PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle, Type: 2, MaxSendWR: 1 << 30}), 64, syscall.EINVAL,
		},
		"doorbell of nothing":     {uapi.CmdPostSend, uapi.Bytes(&uapi.PostSend{QPHandle: 99}), 4, syscall.ENOENT},
		"address without a route": {uapi.CmdCreateAH, uapi.Bytes(&uapi.CreateAH{PDHandle: pd.Handle, Attr: uapi.AHAttr{PortNum: 1}}), 4, syscall.EINVAL},
	} {
		if no, _, _ := f.command(c.number, c.core, nil, c.out); no != c.want {
			t.Errorf("%s: found %v, want %v", name, no, c.want)
		}
	}
	if no, _, _ := f.command(uapi.CmdDeallocPD, uapi.Bytes(&pd), nil, 0); no != 0 {
		t.Errorf("something was left in the PD: %v", no)
	}
}

// Linux looks handles up in a table of the file: ENOENT if there is nothing, EINVAL if
// the object has another type, for each command that names one.
func TestStaleHandlesHaveTheKernelsErrno(t *testing.T) {
	t.Run("device in the server", func(t *testing.T) { refusesStaleHandles(t, newTestClient(t, newServer(t, "127.14.1.6"))) })
	t.Run("device in the program", func(t *testing.T) { refusesStaleHandles(t, newEngineClient(t, "127.14.15.13")) })
}

func refusesStaleHandles(t *testing.T, c *testClient) {
	f := c.open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	cq, _, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
	gone, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	if no, _, _ := f.command(uapi.CmdDeallocPD, uapi.Bytes(&gone), nil, 0); no != 0 {
		t.Fatal(no)
	}
	at := addrOf(f.mem)
	destroy := func(h uint32) []byte { return uapi.Bytes(&uapi.Destroy{Handle: h}) }
	only := func(h uint32) []byte { return uapi.Bytes(&uapi.HandleOnly{Handle: h}) }
	for name, c := range map[string]struct {
		number uint32
		core   func(handle uint32) []byte
		out    int
		other  uint32 // a handle of another type
	}{
		"deallocate PD":      {uapi.CmdDeallocPD, only, 0, cq.CQHandle},
		"deregister region":  {uapi.CmdDeregMR, only, 0, cq.CQHandle},
		"deallocate window":  {uapi.CmdDeallocMW, only, 0, cq.CQHandle},
		"destroy address":    {uapi.CmdDestroyAH, only, 0, cq.CQHandle},
		"destroy CQ":         {uapi.CmdDestroyCQ, destroy, 8, pd.Handle},
		"destroy queue pair": {uapi.CmdDestroyQP, destroy, 4, pd.Handle},
		"destroy SRQ":        {uapi.CmdDestroySRQ, destroy, 4, pd.Handle},
		"register region": {uapi.CmdRegMR, func(h uint32) []byte {
			return uapi.Bytes(&uapi.RegMR{Start: at, HCAVA: at, Length: 10, PDHandle: h})
		}, 12, cq.CQHandle},
		"allocate window": {uapi.CmdAllocMW, func(h uint32) []byte { return uapi.Bytes(&uapi.AllocMW{PDHandle: h, Type: 1}) }, 8, cq.CQHandle},
		"create address":  {uapi.CmdCreateAH, func(h uint32) []byte { return uapi.Bytes(&uapi.CreateAH{PDHandle: h}) }, 4, cq.CQHandle},
		"create SRQ": {uapi.CmdCreateSRQ, func(h uint32) []byte {
			return uapi.Bytes(&uapi.CreateSRQ{PDHandle: h, MaxWR: 1, MaxSGE: 1})
		}, uapi.Size[uapi.CreateSRQResp](), cq.CQHandle},
		"create queue pair": {uapi.CmdCreateQP, func(h uint32) []byte {
			return uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{PDHandle: pd.Handle, SendCQ: h, RecvCQ: h, Type: 2}})
		}, 64, pd.Handle},
		"resize CQ":         {uapi.CmdResizeCQ, func(h uint32) []byte { return uapi.Bytes(&uapi.ResizeCQ{CQHandle: h, CQE: 1}) }, 24, pd.Handle},
		"arm CQ":            {uapi.CmdReqNotifyCQ, func(h uint32) []byte { return uapi.Bytes(&uapi.ReqNotifyCQ{CQHandle: h}) }, 0, pd.Handle},
		"query queue pair":  {uapi.CmdQueryQP, func(h uint32) []byte { return uapi.Bytes(&uapi.QueryQP{QPHandle: h}) }, uapi.Size[uapi.QueryQPResp](), pd.Handle},
		"modify queue pair": {uapi.CmdModifyQP, func(h uint32) []byte { return uapi.Bytes(&uapi.ModifyQP{QPHandle: h}) }, 0, pd.Handle},
		"post a send":       {uapi.CmdPostSend, func(h uint32) []byte { return uapi.Bytes(&uapi.PostSend{QPHandle: h}) }, 4, pd.Handle},
		"attach":            {uapi.CmdAttachMcast, func(h uint32) []byte { return uapi.Bytes(&uapi.Mcast{QPHandle: h}) }, 0, pd.Handle},
		"detach":            {uapi.CmdDetachMcast, func(h uint32) []byte { return uapi.Bytes(&uapi.Mcast{QPHandle: h}) }, 0, pd.Handle},
		"modify SRQ":        {uapi.CmdModifySRQ, func(h uint32) []byte { return uapi.Bytes(&uapi.ModifySRQ{SRQHandle: h}) }, 0, pd.Handle},
		"query SRQ":         {uapi.CmdQuerySRQ, func(h uint32) []byte { return uapi.Bytes(&uapi.QuerySRQ{SRQHandle: h}) }, uapi.Size[uapi.QuerySRQResp](), pd.Handle},
	} {
		for handle, want := range map[uint32]syscall.Errno{gone.Handle: syscall.ENOENT, c.other: syscall.EINVAL} {
			f.used = 0
			if no, _, _ := f.command(c.number, c.core(handle), nil, c.out); no != want {
				t.Errorf("%s with handle %d: found %v, want %v", name, handle, no, want)
			}
		}
	}
}

// Linux arms a queue whether or not its events have a channel to go to.
func TestQueueWithoutChannelIsArmed(t *testing.T) {
	s := newServer(t, "127.14.1.7")
	f := newTestClient(t, s).open("uverbs0")
	cq, _, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
	for _, solicited := range []uint32{0, 1} {
		q := uapi.ReqNotifyCQ{CQHandle: cq.CQHandle, SolicitedOnly: solicited}
		if no, _, _ := f.command(uapi.CmdReqNotifyCQ, uapi.Bytes(&q), nil, 0); no != 0 {
			t.Errorf("solicited only %d: %v", solicited, no)
		}
	}
}

func TestAnswerToUnmappedMemoryLeavesNothing(t *testing.T) {
	s := newServer(t, "127.14.1.2")
	f := newTestClient(t, s).open("uverbs0")
	body := uapi.Response{Response: 4096}
	h := uapi.CmdHeader{Command: uapi.CmdAllocPD, InWords: 4, OutWords: 1}
	if n, _, _ := f.write(append(uapi.Bytes(&h), uapi.Bytes(&body)...)); n != -int64(syscall.EFAULT) {
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
	c := newTestClient(t, s)
	for name, x := range map[string]struct {
		r    uapi.Request
		data string
		want syscall.Errno
	}{
		"another version": {uapi.Request{Version: 99, Op: uapi.OpOpen}, "uverbs0", syscall.EPROTO},
		"no such device":  {uapi.Request{Op: uapi.OpOpen}, "uverbs1", syscall.ENOENT},
		"no such file":    {uapi.Request{Op: uapi.OpWrite, File: 12345}, "", syscall.EIO},
	} {
		if p, _ := c.send(x.r, []byte(x.data)); p.Result != -int64(x.want) {
			t.Errorf("%s: found %d, want %v", name, p.Result, x.want)
		}
	}
	f := c.open("uverbs0")
	for name, x := range map[string]struct {
		r    uapi.Request
		want syscall.Errno
	}{
		"ioctl":                   {uapi.Request{Op: uapi.OpIoctl, Arg: [4]uint64{0x1b02}}, syscall.ENOTTY},
		"read":                    {uapi.Request{Op: uapi.OpRead}, syscall.EINVAL},
		"mmap of nothing":         {uapi.Request{Op: uapi.OpMmap, Arg: [4]uint64{0, 4096}}, syscall.EINVAL},
		"command too long":        {uapi.Request{Op: uapi.OpWrite, Arg: [4]uint64{addrOf(c.mem), client.MaxCommand + 1}}, syscall.EINVAL},
		"command that is nowhere": {uapi.Request{Op: uapi.OpWrite, Arg: [4]uint64{4096, 1000}}, syscall.EFAULT},
		"another call":            {uapi.Request{Op: 77}, syscall.ENOSYS},
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
	if p, _ := uapi.Parse[uapi.Reply](buf[:n]); err != nil || p.Result != -int64(syscall.EPROTO) {
		t.Errorf("a short message: found %+v, %v", p, err)
	}
}

func TestRingIsMappedOnceAndCannotShrink(t *testing.T) {
	s := newServer(t, "127.14.1.4")
	f := newTestClient(t, s).open("uverbs0")
	_, b, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
	mi, _ := uapi.Parse[uapi.MmInfo](b[8:])
	r := uapi.Request{Op: uapi.OpMmap, File: f.id, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}
	p, fds := f.send(r, nil)
	if p.Result != 0 || len(fds) != 1 {
		t.Fatalf("%+v", p)
	}
	defer unix.Close(fds[0])
	if err := unix.Ftruncate(fds[0], 0); err != syscall.EPERM {
		t.Errorf("shortening the ring: found %v", err)
	}
	if p, _ := f.send(r, nil); p.Result != -int64(syscall.EINVAL) {
		t.Errorf("the second time: result %d", p.Result)
	}
}

func TestConnectionCommands(t *testing.T) {
	s := newServer(t, "127.14.1.5")
	f := newTestClient(t, s).open("rdma_cm")
	create := func(uid uint64, ps uint16) uint32 {
		t.Helper()
		q := uapi.CMCreate{UID: uid, PS: ps}
		to := f.alloc(4)
		q.Response = addrOf(to)
		if n := f.ucm(uapi.CMCreateID, uapi.Bytes(&q), 4); n != 0 {
			t.Fatalf("create: %v", n)
		}
		return binary.NativeEndian.Uint32(to)
	}
	sockaddr := func(last byte, port uint16) (a uapi.SockaddrIn6) {
		binary.NativeEndian.PutUint16(a[:], syscall.AF_INET)
		binary.BigEndian.PutUint16(a[2:], port)
		copy(a[4:], []byte{127, 14, 1, last})
		return a
	}
	ev := f.alloc(uapi.Size[uapi.CMEvent]())
	get := func() (e uapi.CMEvent, no syscall.Errno) {
		no = f.ucm(uapi.CMGetEvent, uapi.Bytes(&uapi.Response{Response: addrOf(ev)}), len(ev))
		e, _ = uapi.Parse[uapi.CMEvent](ev)
		return e, no
	}
	wait := func(event uint32) uapi.CMEvent {
		t.Helper()
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}, int(timeLimit.Milliseconds())); n != 1 {
			t.Fatalf("waiting for event %d: %v", event, err)
		}
		e, no := get()
		if no != 0 || e.Event != event {
			t.Fatalf("found event %d, status %d (%v), want %d", e.Event, int32(e.Status), no, event)
		}
		return e
	}
	if _, no := get(); no != syscall.EAGAIN {
		t.Errorf("without an event: found %v", no)
	}
	listener := create(0xaaa, 0x106)
	if n := f.ucm(uapi.CMBindIP, uapi.Bytes(&uapi.CMBindIPCmd{ID: listener, Addr: sockaddr(77, 7777)}), 0); n != syscall.EADDRNOTAVAIL {
		t.Errorf("binding to another address: found %v", n)
	}
	if n := f.ucm(uapi.CMBindIP, uapi.Bytes(&uapi.CMBindIPCmd{ID: listener, Addr: sockaddr(5, 7777)}), 0); n != 0 {
		t.Fatal(n)
	}
	if n := f.ucm(uapi.CMListen, uapi.Bytes(&uapi.CMPair{ID: listener, Arg: 5}), 0); n != 0 {
		t.Fatal(n)
	}
	// Linux takes the loopback address, where no device has it, for any (libfabric).
	any := create(0, 0x106)
	local := sockaddr(0, 7778)
	copy(local[4:], []byte{127, 0, 0, 1})
	if n := f.ucm(uapi.CMBindIP, uapi.Bytes(&uapi.CMBindIPCmd{ID: any, Addr: local}), 0); n != 0 {
		t.Errorf("binding to the loopback address: found %v", n)
	}
	second := create(0, 0x106)
	if n := f.ucm(uapi.CMBindIP, uapi.Bytes(&uapi.CMBindIPCmd{ID: second, Addr: sockaddr(5, 7777)}), 0); n != syscall.EADDRINUSE {
		t.Errorf("binding twice: found %v", n)
	}
	id := create(0xbbb, 0x106)
	if n := f.ucm(uapi.CMResolveIP, uapi.Bytes(&uapi.CMResolveIPCmd{ID: id, Dst: sockaddr(5, 7777)}), 0); n != 0 {
		t.Fatal(n)
	}
	if e := wait(0); e.UID != 0xbbb || e.ID != id {
		t.Errorf("address resolved: %+v", e)
	}
	if n := f.ucm(uapi.CMResolveRoute, uapi.Bytes(&uapi.CMPair{ID: id}), 0); n != 0 {
		t.Fatal(n)
	}
	wait(2)
	to := f.alloc(uapi.Size[uapi.CMRoute]())
	if n := f.ucm(uapi.CMQueryRoute, uapi.Bytes(&uapi.CMByID{Response: addrOf(to), ID: id}), len(to)); n != 0 {
		t.Fatal(n)
	}
	route, _ := uapi.Parse[uapi.CMRoute](to)
	if route.NumPaths != 1 || route.PortNum != 1 || route.NodeGUID != s.devices[0].GUID() || route.Path[0].DGID != s.cfg.Devices[0].GID() {
		t.Errorf("route: %+v", route)
	}
	conn := uapi.ConnParam{QPN: 0x123, RetryCount: 7, Valid: 1, PrivateLen: 5}
	copy(conn.Private[:], "hello")
	if n := f.ucm(uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{Conn: conn, ID: id}), 0); n != 0 {
		t.Fatal(n)
	}
	e := wait(4)
	p, _ := uapi.Parse[uapi.ConnParam](e.Param[:])
	if e.UID != 0xaaa || e.ID == listener || p.QPN != 0x123 || string(p.Private[:5]) != "hello" {
		t.Errorf("request: %+v of %+v", p, e)
	}
	if n := f.ucm(uapi.CMReject, uapi.Bytes(&uapi.CMRejectCmd{ID: e.ID, PrivateLen: 2, Private: [256]byte{'n', 'o'}}), 0); n != 0 {
		t.Fatal(n)
	}
	r := wait(8)
	if p, _ = uapi.Parse[uapi.ConnParam](r.Param[:]); r.UID != 0xbbb || r.Status != 28 || string(p.Private[:2]) != "no" {
		t.Errorf("rejection: %+v of %+v", p, r)
	}
	reported := f.alloc(4)
	if n := f.ucm(uapi.CMDestroyID, uapi.Bytes(&uapi.CMByID{Response: addrOf(reported), ID: id}), 4); n != 0 || binary.NativeEndian.Uint32(reported) != 3 {
		t.Errorf("destroyed with %v, %d events; three were read", n, binary.NativeEndian.Uint32(reported))
	}
	if n := f.ucm(uapi.CMListen, uapi.Bytes(&uapi.CMPair{ID: id, Arg: 5}), 0); n != syscall.ENOENT {
		t.Errorf("a destroyed id: found %v", n)
	}
}

// ucm writes a command of connection management.
func (f *devFile) ucm(number uint32, body []byte, out int) syscall.Errno {
	f.t.Helper()
	h := uapi.CMHeader{Command: number, In: uint16(len(body)), Out: uint16(out)}
	n, _, p := f.write(append(uapi.Bytes(&h), body...))
	if n < 0 {
		if (p.Flags&uapi.ReplyWait != 0) != (n == -int64(syscall.EAGAIN)) {
			f.t.Errorf("command %d: answer %+v", number, p)
		}
		return syscall.Errno(-n)
	}
	return 0
}

// Programs such as rdma_xclient send inline although they requested no room: Linux's
// Soft RoCE reports the room of a request's entries.
func TestQueuePairReportsAllOfItsInlineRoom(t *testing.T) {
	s := newServer(t, "127.14.1.3")
	f := newTestClient(t, s).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	cq, _, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
	for _, c := range []struct{ sge, inline, wantSGE, wantInline uint32 }{
		{1, 0, 1, 16}, {2, 16, 2, 32}, {1, 64, 4, 64}, {0, 0, 0, 0}, {device.MaxSGE, device.MaxInline, device.MaxSGE, device.MaxInline},
	} {
		r, _, _ := do[uapi.CreateQPResp](f, uapi.CmdCreateQP, uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
			PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle, Type: uint8(qp.RC), MaxSendWR: 1, MaxSendSGE: c.sge, MaxInline: c.inline,
		}}), 64)
		if r.MaxSendSGE != c.wantSGE || r.MaxInline != c.wantInline {
			t.Errorf("%+v: found %d entries, %d bytes", c, r.MaxSendSGE, r.MaxInline)
		}
	}
}
