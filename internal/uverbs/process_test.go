//go:build linux

package uverbs

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"softrdma/internal/queue"
)

// That is what one-sided means: the program takes no part.
func TestStoppedProgramsMemoryIsWrittenAndRead(t *testing.T) {
	s := newServer(t, "127.14.5.1")
	h := startHelper(t, s, nil)
	oneSided(t, s, h)
}

// oneSided writes and reads a helper's memory while it is stopped.
func oneSided(t *testing.T, s *Server, h *helper) {
	t.Helper()
	a := newSide(newTestClient(t, s).open("uverbs0"), 0x2000)
	gid := s.cfg.Devices[0].GID()
	if got := h.tell("connect %d %v", a.qpn, net.IP(gid[:])); got != "done" {
		t.Fatal(got)
	}
	a.connect(h.side.qpn, gid)
	h.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(h.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(status, err)
	}
	copy(a.buf, "written while it was stopped")
	target := func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: h.side.addr + 5, RKey: h.side.key} }
	a.post(queue.Write, target, a.sge(0, 28))
	a.completion()
	a.post(queue.Read, target, a.sge(1000, 28))
	a.completion()
	if string(a.buf[1000:][:28]) != "written while it was stopped" {
		t.Errorf("read %q", a.buf[1000:][:28])
	}
	h.signal(syscall.SIGCONT)
	if got := h.tell("show 4 30"); got != `"\x00written while it was stopped\x00"` {
		t.Errorf("the program has %s", got)
	}
}

// newServerFor is newServer for the programs of all users.
func newServerFor(t *testing.T, addr string, allow func(uid, gid uint32) bool) (s *Server, log func() string) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	s = newServerOf(t, addr, Config{Mode: 0o666, Allow: allow, Log: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}})
	if err := os.Chmod(s.cfg.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return s, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "\n")
	}
}

// unprivileged returns the credentials of an ordinary user. The test needs root.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root starts programs of other users")
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}

func TestUserThatIsNotAllowedIsRefused(t *testing.T) {
	user := unprivileged(t)
	s, log := newServerFor(t, "127.14.5.2", nil)
	if h := startHelper(t, s, user); h.error != syscall.EACCES.Error() {
		t.Errorf("the program found %q", h.error)
	}
	if !strings.Contains(log(), "CLIENT_USER") {
		t.Errorf("the log says %q", log())
	}
	if c := s.Count(); c.Files != 0 {
		t.Errorf("%+v", c)
	}
}

func TestProgramsOfTwoUsersShareADevice(t *testing.T) {
	user := unprivileged(t)
	s, log := newServerFor(t, "127.14.5.3", func(uint32, uint32) bool { return true })
	h := startHelper(t, s, user)
	if h.error != "" {
		t.Fatal(h.error, log())
	}
	oneSided(t, s, h)
	h.kill()
	eventually(t, "nothing of the other user's", func() bool { return s.Count().Processes == 1 })
}

// Programs that share an address can forge each other's queue pair numbers: so only those of
// the server's user get a share, although others may use the device.
func TestProgramOfAnotherUserGetsNoShareOfTheAddress(t *testing.T) {
	user := unprivileged(t)
	s, log := newServerFor(t, "127.14.5.5", func(uint32, uint32) bool { return true })
	h := startHelper(t, s, user)
	if h.error != "" {
		t.Fatal(h.error, log())
	}
	if got, want := h.tell("share"), fmt.Sprintf("SLOT_USER %d %d true", os.Geteuid(), user.Uid); got != want {
		t.Errorf("another user's program: %s, expected %s", got, want)
	}
	if got := startHelper(t, s, nil).tell("share"); got != "taken" {
		t.Errorf("a program of the server's user: %s", got)
	}
	eventually(t, "no share is taken", func() bool { return s.Count().Slots == 0 })
}

func TestProgramKilledInMidTransferLeavesOthersAlone(t *testing.T) {
	s := newServer(t, "127.14.5.4")
	h := startHelper(t, s, nil)
	f := newTestClient(t, s).open("uverbs0")
	gid := s.cfg.Devices[0].GID()
	a, b, c := newSide(f, 0x2000), newSide(f, 0x3000), newSide(f, 0x4000)
	h.tell("connect %d %v", a.qpn, net.IP(gid[:]))
	a.connect(h.side.qpn, gid)
	b.connect(c.qpn, gid)
	c.connect(b.qpn, gid)
	transfer := func(s *side, addr uint64, key uint32) {
		for _, op := range []queue.Op{queue.Write, queue.Read} {
			s.post(op, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addr, RKey: key} }, s.sge(0, 16000))
		}
	}
	last := queue.Success
	for i := 0; last == queue.Success; i++ {
		transfer(a, h.side.addr, h.side.key)
		if i == 20 {
			if err := h.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		transfer(b, addrOf(c.buf), c.key)
		for range 2 {
			if e := a.failure(); e.Status != queue.Success && last == queue.Success {
				last = e.Status
			}
			b.completion()
		}
	}
	// Either its memory goes first, or its queue pair.
	switch last {
	case queue.RetryExcErr, queue.RemOpErr, queue.RemAccessErr:
	default:
		t.Errorf("the peer's requests completed with %v", last)
	}
	h.kill()
	eventually(t, "nothing of the program's", func() bool { return s.Count().Files == 1 && s.Count().Processes == 1 })
	if n := s.cfg.Devices[0].Counts(); n.QP != 3 || n.MR != 3 {
		t.Errorf("the device has %+v", n)
	}
	transfer(b, addrOf(c.buf), c.key)
	b.completion()
	b.completion()
}
