//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

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
	a := newSide(newClient(t, s).open("uverbs0"), 0x2000)
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
	copy(a.buf, "written while it stood still")
	target := func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: h.side.addr + 5, RKey: h.side.key} }
	a.post(queue.Write, target, a.sge(0, 28))
	a.completion()
	a.post(queue.Read, target, a.sge(1000, 28))
	a.completion()
	if string(a.buf[1000:][:28]) != "written while it stood still" {
		t.Errorf("read %q", a.buf[1000:][:28])
	}
	h.signal(syscall.SIGCONT)
	if got := h.tell("show 4 30"); got != `"\x00written while it stood still\x00"` {
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

// nobody is another user than this test's, which has to be root.
func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root starts programs of other users")
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}

func TestUserThatIsNotAllowedIsRefused(t *testing.T) {
	user := nobody(t)
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
	user := nobody(t)
	s, log := newServerFor(t, "127.14.5.3", func(uint32, uint32) bool { return true })
	h := startHelper(t, s, user)
	if h.error != "" {
		t.Fatal(h.error, log())
	}
	oneSided(t, s, h)
	h.kill()
	eventually(t, "nothing of the other user's", func() bool { return s.Count().Processes == 1 })
}

// A process that runs another program has another memory: nothing of the new
// one is touched, above all where the new one has other rights.
func TestMemoryOfAnotherUserEndsWithItsProgram(t *testing.T) {
	user := nobody(t)
	c := exec.Command("/bin/sh", "-c", "echo; read line; exec sleep 1000")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(c.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{pid: c.Process.Pid, uid: user.Uid, gid: user.Gid, pidfd: os.NewFile(uintptr(fd), "pidfd")}
	defer p.close()
	if err := p.openMemory(); err != nil {
		t.Fatal(err)
	}
	stack := stackOf(t, p.pid)
	var b [8]byte
	if err := p.Load(b[:], stack); err != nil {
		t.Fatal(err)
	}
	if err := p.Store(stack, b[:]); err != nil {
		t.Fatal(err)
	}
	if err := p.Load(b[:], 4096); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("memory that is not mapped: %v", err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another program", func() bool {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid))
		return strings.HasPrefix(filepath.Base(name), "sleep") || strings.HasSuffix(name, "coreutils")
	})
	stack = stackOf(t, p.pid)
	if err := p.Load(b[:], stack); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("reading the new program: %v", err)
	}
	if err := p.Store(stack, b[:]); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("writing to the new program: %v", err)
	}
}

// stackOf is an address of a process's stack.
func stackOf(t *testing.T, pid int) uint64 {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x", &from, &to); n == 2 && strings.Contains(line, "[stack]") {
			return to - 4096
		}
	}
	t.Fatal("no stack in\n" + string(maps))
	return 0
}

func TestProgramKilledInMidTransferDisturbsNobodyElse(t *testing.T) {
	s := newServer(t, "127.14.5.4")
	h := startHelper(t, s, nil)
	f := newClient(t, s).open("uverbs0")
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
	// Its memory goes before the device is told, or its queue pair with it.
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
