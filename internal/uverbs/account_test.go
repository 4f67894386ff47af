//go:build linux

package uverbs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/qp"
)

// limited gives the programs of this user small quotas.
func limited(s *Server, descriptors, mappings int64) *account {
	a := s.account(uint32(os.Geteuid()))
	s.mu.Lock() // connections to come see it
	defer s.mu.Unlock()
	a.descriptors.max, a.mappings.max = descriptors, mappings
	return a
}

func TestUserThatHoldsTooManyDescriptorsIsRefused(t *testing.T) {
	s, log := newServerFor(t, "127.14.6.1", nil)
	a := limited(s, 20, 100)
	c := newClient(t, s)
	var list []int
	var last reply
	for {
		p, fds := c.send(request{Op: opOpen}, []byte("uverbs0"))
		if last = p; p.Result < 0 {
			break
		}
		list = append(list, fds...)
	}
	if last.Result != -int64(syscall.EMFILE) || len(list) != 15 { // three of a connection, two of the process
		t.Errorf("file %d gave %d", len(list)+1, last.Result)
	}
	second := newClient(t, s)
	if p, _ := second.send(request{Op: opOpen}, []byte("uverbs0")); p.Result != -int64(syscall.EMFILE) {
		t.Errorf("another connection gave %d", p.Result)
	}
	if !strings.Contains(log(), "CLIENT_LIMIT") {
		t.Errorf("the log says %q", log())
	}
	for _, fd := range list {
		unix.Close(fd)
	}
	eventually(t, "nothing left of the files", func() bool { return a.descriptors.n.Load() == 5 })
	c.open("uverbs0")
}

func TestUserThatHoldsTooManyMappingsIsRefused(t *testing.T) {
	s := newServer(t, "127.14.6.2")
	a := limited(s, 100, 4)
	f := newClient(t, s).open("uverbs0")
	newSide(f, 0x1000) // three rings and a region
	pd, _, _ := do[handleOnly](f, cmdAllocPD, bytesOf(&response{}), 4)
	before := a.descriptors.n.Load()
	for what, x := range map[string]struct {
		number uint32
		core   []byte
		out    int
	}{
		"queue":  {cmdCreateCQ, bytesOf(&createCQ{CQE: 1, CompChannel: -1}), 24},
		"region": {cmdRegMR, bytesOf(&regMR{Start: addrOf(f.mem), HCAVA: addrOf(f.mem), Length: 10, PDHandle: pd.Handle}), 12},
		"queue pair": {cmdCreateQP, bytesOf(&createQP{ExCreateQPBase: exCreateQPBase{
			PDHandle: pd.Handle, SendCQ: 1, RecvCQ: 1, Type: uint8(qp.RC),
		}}), 64},
	} {
		if no, _, _ := f.command(x.number, x.core, nil, x.out); no != syscall.ENOMEM {
			t.Errorf("%s gave %v", what, no)
		}
	}
	if n := a.descriptors.n.Load(); n != before || a.mappings.n.Load() != 4 {
		t.Errorf("%d descriptors, before %d; %d mappings", n, before, a.mappings.n.Load())
	}
}

func TestThousandsOfQueuePairsComeAndGo(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 200
	}
	s := newServer(t, "127.14.6.3")
	f := newClient(t, s).open("uverbs0")
	pd, _, _ := do[handleOnly](f, cmdAllocPD, bytesOf(&response{}), 4)
	cq, _, _ := do[createCQResp](f, cmdCreateCQ, bytesOf(&createCQ{CQE: 100, CompChannel: -1}), 24)
	descriptors := openDescriptors(t)
	for i := range n {
		f.used = 0
		_, b, _ := do[createQPResp](f, cmdCreateQP, bytesOf(&createQP{ExCreateQPBase: exCreateQPBase{
			UserHandle: uint64(i), PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle,
			MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, Type: uint8(qp.RC),
		}}), 64)
		maps, _ := parse[rxeQP](b[32:])
		for _, mi := range []mmInfo{maps.SQ, maps.RQ} {
			p, fds := f.send(request{Op: opMmap, File: f.id, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}, nil)
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
