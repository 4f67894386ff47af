//go:build linux

package uverbs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/qp"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// limited sets small quotas for the programs of this user.
func limited(s *Server, descriptors, mappings int64) *client.Account {
	uid := uint32(os.Geteuid())
	a := s.admission.Account(uid)
	a.Descriptors.Max, a.Mappings.Max = descriptors, mappings
	return s.admission.Account(uid) // its lock publishes the limits
}

func TestUserThatHoldsTooManyDescriptorsIsRefused(t *testing.T) {
	s, log := newServerFor(t, "127.14.6.1", nil)
	a := limited(s, 20, 100)
	c := newTestClient(t, s)
	var list []int
	var last uapi.Reply
	for {
		p, fds := c.send(uapi.Request{Op: uapi.OpOpen}, []byte("uverbs0"))
		if last = p; p.Result < 0 {
			break
		}
		list = append(list, fds...)
	}
	if last.Result != -int64(syscall.EMFILE) || len(list) != 17 { // one of a connection, two of the process
		t.Errorf("file %d: result %d", len(list)+1, last.Result)
	}
	second := newTestClient(t, s)
	if p, _ := second.send(uapi.Request{Op: uapi.OpOpen}, []byte("uverbs0")); p.Result != -int64(syscall.EMFILE) {
		t.Errorf("another connection: result %d", p.Result)
	}
	if !strings.Contains(log(), "CLIENT_LIMIT") {
		t.Errorf("the log says %q", log())
	}
	for _, fd := range list {
		unix.Close(fd)
	}
	eventually(t, "nothing left of the files", func() bool { return a.Descriptors.Held() == 3 })
	c.open("uverbs0")
}

func TestUserThatHoldsTooManyMappingsIsRefused(t *testing.T) {
	s := newServer(t, "127.14.6.2")
	const most = 200 // with less the device advertises no regions
	a := limited(s, 400, most)
	f := newTestClient(t, s).open("uverbs0")
	newSide(f, 0x1000) // three rings and a region
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	for range 98 {
		f.used = 0
		do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
		do[uapi.CreateSRQResp](f, uapi.CmdCreateSRQ, uapi.Bytes(&uapi.CreateSRQ{PDHandle: pd.Handle, MaxWR: 1, MaxSGE: 1}), 24)
	}
	before := a.Descriptors.Held()
	for what, x := range map[string]struct {
		number uint32
		core   []byte
		out    int
	}{
		"queue":  {uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24},
		"region": {uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{Start: addrOf(f.mem), HCAVA: addrOf(f.mem), Length: 10, PDHandle: pd.Handle}), 12},
		"queue pair": {uapi.CmdCreateQP, uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
			PDHandle: pd.Handle, SendCQ: 1, RecvCQ: 1, Type: uint8(qp.RC),
		}}), 64},
	} {
		if no, _, _ := f.command(x.number, x.core, nil, x.out); no != syscall.ENOMEM {
			t.Errorf("%s: found %v", what, no)
		}
	}
	if n := a.Descriptors.Held(); n != before || a.Mappings.N.Load() != most {
		t.Errorf("%d descriptors, before %d; %d mappings", n, before, a.Mappings.N.Load())
	}
}

// A program can have as many objects of one kind as the device says, and no more.
func TestProgramCanHaveWhatTheDeviceAdvertises(t *testing.T) {
	t.Run("mappings", func(t *testing.T) {
		s := newServer(t, "127.14.6.4")
		haveWhatIsAdvertised(t, s, limited(s, 2000, 500).Mappings.Max/2-100)
	})
	t.Run("memory", func(t *testing.T) {
		s := newServerOf(t, "127.14.6.4", Config{ClientMemory: 2 << 20})
		haveWhatIsAdvertised(t, s, 30)
	})
}

// haveWhatIsAdvertised makes as many objects of each kind as a server says, which are at least
// so many.
func haveWhatIsAdvertised(t *testing.T, s *Server, least int64) {
	for kind, x := range map[string]struct {
		most   func(r *uapi.QueryDeviceResp) uint32
		create func(f *devFile, pd, cq uint32) syscall.Errno
	}{
		"queue pairs": {func(r *uapi.QueryDeviceResp) uint32 { return r.MaxQP }, func(f *devFile, pd, cq uint32) syscall.Errno {
			no, _, _ := f.command(uapi.CmdCreateQP, uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
				PDHandle: pd, SendCQ: cq, RecvCQ: cq, MaxSendWR: 1, MaxRecvWR: 1, Type: uint8(qp.RC),
			}}), nil, 64)
			return no
		}},
		"completion queues": {func(r *uapi.QueryDeviceResp) uint32 { return r.MaxCQ - 1 }, func(f *devFile, _, _ uint32) syscall.Errno {
			no, _, _ := f.command(uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), nil, 24)
			return no
		}},
		"shared receive queues": {func(r *uapi.QueryDeviceResp) uint32 { return r.MaxSRQ }, func(f *devFile, pd, _ uint32) syscall.Errno {
			no, _, _ := f.command(uapi.CmdCreateSRQ, uapi.Bytes(&uapi.CreateSRQ{PDHandle: pd, MaxWR: 1, MaxSGE: 1}), nil, 40)
			return no
		}},
		"regions": {func(r *uapi.QueryDeviceResp) uint32 { return r.MaxMR }, func(f *devFile, pd, _ uint32) syscall.Errno {
			at := addrOf(f.mem)
			no, _, _ := f.command(uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{Start: at, HCAVA: at, Length: 10, PDHandle: pd}), nil, 12)
			return no
		}},
		"address handles": {func(r *uapi.QueryDeviceResp) uint32 { return r.MaxAH }, func(f *devFile, pd, _ uint32) syscall.Errno {
			attr := uapi.AHAttr{GRH: uapi.GlobalRoute{DGID: [16]byte{10: 0xff, 11: 0xff, 12: 127, 13: 14, 14: 6, 15: 4}}, IsGlobal: 1, PortNum: 1}
			no, _, _ := f.command(uapi.CmdCreateAH, uapi.Bytes(&uapi.CreateAH{PDHandle: pd, Attr: attr}), nil, 4)
			return no
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			f := newTestClient(t, s).open("uverbs0")
			told, _, _ := do[uapi.QueryDeviceResp](f, uapi.CmdQueryDevice, uapi.Bytes(&uapi.Response{}), uapi.Size[uapi.QueryDeviceResp]())
			pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
			cq, _, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
			most := x.most(&told)
			if int64(most) < least {
				t.Fatalf("the device has %d, want %d or more", most, least)
			}
			for i := range most {
				f.used = 0
				if no := x.create(f, pd.Handle, cq.CQHandle); no != 0 {
					t.Fatalf("number %d of %d: %v", i+1, most, no)
				}
			}
			for range 2 { // a refused one leaves nothing
				if no := x.create(f, pd.Handle, cq.CQHandle); no != syscall.ENOMEM {
					t.Errorf("number %d of %d: found %v, expected %v", most+1, most, no, syscall.ENOMEM)
				}
			}
			unix.Close(f.fd)
			f.fd = -1
			eventually(t, "nothing left", func() bool { return s.Count().Objects == 0 })
		})
	}
}

func TestThousandsOfQueuePairsComeAndGo(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 200
	}
	s := newServer(t, "127.14.6.3")
	f := newTestClient(t, s).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	cq, _, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 100, CompChannel: -1}), 24)
	descriptors := openDescriptors(t)
	for i := range n {
		f.used = 0
		_, b, _ := do[uapi.CreateQPResp](f, uapi.CmdCreateQP, uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: uapi.ExCreateQPBase{
			UserHandle: uint64(i), PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle,
			MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, Type: uint8(qp.RC),
		}}), 64)
		maps, _ := uapi.Parse[uapi.RxeQP](b[32:])
		for _, mi := range []uapi.MmInfo{maps.SQ, maps.RQ} {
			p, fds := f.send(uapi.Request{Op: uapi.OpMmap, File: f.id, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}, nil)
			if p.Result < 0 {
				t.Fatalf("queue pair %d: %+v", i, p)
			}
			unix.Close(fds[0]) // as the library does, once it is mapped
		}
	}
	if c := s.cfg.Devices[0].Counts(); c.QP != n {
		t.Errorf("%d queue pairs", c.QP)
	}
	if now := openDescriptors(t); now > descriptors+5 {
		t.Errorf("%d queue pairs that are mapped hold %d descriptors", n, now-descriptors)
	}
	unix.Close(f.fd)
	f.fd = -1
	eventually(t, "nothing left", func() bool { return s.Count().Objects == 0 && s.cfg.Devices[0].Counts().QP == 0 })
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
