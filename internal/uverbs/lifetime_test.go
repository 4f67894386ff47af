//go:build linux

package uverbs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/wake"
	"softrdma/internal/wire/uapi"
)

func TestObjectsGoWithTheLastDescriptorOfTheirFile(t *testing.T) {
	s := newServer(t, "127.14.2.1")
	f := newTestClient(t, s).open("uverbs0")
	newSide(f, 0x1000)
	cm := newTestClient(t, s).open("rdma_cm")
	q := uapi.CMCreate{PS: 0x106, Response: addrOf(cm.alloc(4))}
	if n := cm.ucm(uapi.CMCreateID, uapi.Bytes(&q), 4); n != 0 {
		t.Fatal(n)
	}
	if c := s.Count(); c.Files != 2 || c.Objects != 6 { // PD, channel, CQ, QP, MR; id
		t.Errorf("%+v", c)
	}
	second, err := unix.Dup(f.fd)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(f.fd)
	do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	unix.Close(second)
	unix.Close(cm.fd)
	f.fd, cm.fd = -1, -1
	eventually(t, "nothing left", func() bool { c := s.Count(); return c.Files == 0 && c.Objects == 0 })
}

func TestKilledProgramLeavesNothing(t *testing.T) {
	s := newServer(t, "127.14.2.2")
	h := startHelper(t, s, nil)
	if n := s.Count(); n.Objects != 5 || n.Processes != 1 {
		t.Errorf("%+v", n)
	}
	h.kill()
	eventually(t, "nothing left", func() bool { return s.Count() == Counts{} })
	if n := s.cfg.Devices[0].Counts(); n.QP != 0 || n.MR != 0 {
		t.Errorf("the device has %+v left", n)
	}
}

// A server that ends in order leaves no program waiting. Programs that poll find their
// requests flushed. Programs that wait for events read one, and then end of file.
func TestEndOfTheServerIsReportedToPrograms(t *testing.T) {
	s := newServer(t, "127.14.2.3")
	f := newTestClient(t, s).open("uverbs0")
	_, _, fds := do[uapi.GetContextResp](f, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
	async := fds[0]
	defer unix.Close(async)
	a := newSide(f, 0x1000)
	a.connect(0x123456, s.cfg.Devices[0].GID())
	a.receive(a.sge(0, 100))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if e := a.failure(); e.Status != queue.WRFlushErr || e.WRID != 7 {
		t.Errorf("the receive completed as %+v", e)
	}
	var e uapi.AsyncEvent
	if n, err := unix.Read(async, uapi.Bytes(&e)); n != 16 || err != nil || e.EventType != uint32(machine.EventDeviceFatal) {
		t.Errorf("read %d bytes, %v: %+v", n, err, e)
	}
	for what, fd := range map[string]int{"events": async, "channel": a.channel, "file": f.fd} {
		if n, err := unix.Read(fd, uapi.Bytes(&e)); n != 0 || err != nil {
			t.Errorf("%s: %d, %v; expected the end", what, n, err)
		}
	}
}

func TestConnectionsWithoutThreadAreServed(t *testing.T) {
	s := newServer(t, "127.14.1.9")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for fd := 0; ; { // no connection gets a thread any more
		if fd, err = wake.LeavePoller(r); err != nil {
			break
		}
		defer wake.CloseDescriptor(fd)
	}
	a, b := newPair(t, s)
	copy(a.buf, "through Go's poller")
	a.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: b.key} }, a.sge(0, 19))
	a.completion()
	if got := string(b.buf[:19]); got != "through Go's poller" {
		t.Errorf("found %q", got)
	}
}
