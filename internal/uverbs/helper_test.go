//go:build linux

package uverbs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/daemon"
	"softrdma/internal/reason"
	"softrdma/internal/testenv"
	"softrdma/internal/wire/uapi"
)

// helperEnv makes this test another program, which holds objects of the server
// whose socket it names and executes commands.
const helperEnv = "UVERBS_TEST_SOCKET"

// helperSIW is set where the device is an iWARP device.
const helperSIW = "UVERBS_TEST_SIW"

// TestHelper is that program. It prints a line about its queue pair and
// obeys the lines that it reads:
//
//	connect QPN GID   connects the queue pair
//	show OFFSET N     prints N bytes of its memory
//	share             asks for a share of the device's address
//	hold              registers held memory, and prints its key and address
//	used              waits until the server waits for that memory
//	release           lets it answer
func TestHelper(t *testing.T) {
	path := os.Getenv(helperEnv)
	if path == "" {
		t.Skip("not a test: others run it")
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	c := &testClient{t: t, conn: conn, mem: mem}
	if p, _ := c.send(uapi.Request{Op: uapi.OpOpen, Arg: [4]uint64{0, addrOf(mem)}}, []byte("uverbs0")); p.Result < 0 {
		fmt.Println("failed:", syscall.Errno(-p.Result))
		return
	}
	if os.Getenv(helperSIW) != "" {
		s := newSIW(c.open("uverbs0"), 0x1000)
		fmt.Println("ready", s.qpn, s.key, addrOf(s.buf))
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends it
		return
	}
	s, held := newSide(c.open("uverbs0"), 0x1000), (*testenv.Held)(nil)
	fmt.Println("ready", s.qpn, s.key, addrOf(s.buf))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var a, b int
		var gid string
		if n, _ := fmt.Sscanf(in.Text(), "connect %d %s", &a, &gid); n == 2 {
			s.connect(uint32(a), [16]byte(net.ParseIP(gid)))
		} else if n, _ = fmt.Sscanf(in.Text(), "show %d %d", &a, &b); n == 2 {
			fmt.Printf("%q\n", s.buf[a:][:b])
			continue
		} else if in.Text() == "hold" {
			held = testenv.HoldMemory(t, 1<<16)
			fmt.Println(s.registerAll(held.Mem), addrOf(held.Mem))
			continue
		} else if in.Text() == "used" {
			held.AwaitUse(t, timeLimit)
		} else if in.Text() == "release" {
			held.Release()
		} else if in.Text() == "share" {
			fmt.Println(takeSlot(path))
			continue
		}
		fmt.Println("done")
	}
}

// takeSlot asks for a share of the address of a server's first device, and says what became
// of that.
func takeSlot(socket string) string {
	slot, err := daemon.TakeSlot(context.Background(), socket)
	var why *reason.Error
	switch {
	case errors.As(err, &why):
		return fmt.Sprint(why.Detail.Reason, " ", why.Detail.Expected, " ", why.Detail.Found, " ", errors.Is(err, syscall.EACCES))
	case err != nil:
		return err.Error()
	}
	if err := slot.Close(); err != nil {
		return err.Error()
	}
	return "taken"
}

// A helper is that program, running.
type helper struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	side  helperSide
	error string // what it failed with
}

// A helperSide is its queue pair.
type helperSide struct {
	qpn, key uint32
	addr     uint64
}

// startHelper starts one, as another user where that is not nil.
func startHelper(t *testing.T, s *Server, user *syscall.Credential) *helper {
	t.Helper()
	// The directory of the test may be closed to that user.
	h := &helper{t: t, cmd: exec.Command("/proc/self/exe", "-test.run=^TestHelper$", "-test.v")}
	h.cmd.Env = append(os.Environ(), helperEnv+"="+s.Socket())
	if s.devices[0].Adapter.IWARP() {
		h.cmd.Env = append(h.cmd.Env, helperSIW+"=1")
	}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGKILL}
	h.cmd.Stderr = os.Stderr
	h.cmd.Dir = "/"
	out, err := h.cmd.StdoutPipe()
	if err == nil {
		h.in, err = h.cmd.StdinPipe()
	}
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	h.out = bufio.NewScanner(out)
	for {
		line := h.line()
		if n, _ := fmt.Sscanf(line, "ready %d %d %d", &h.side.qpn, &h.side.key, &h.side.addr); n == 3 {
			return h
		}
		if why, ok := strings.CutPrefix(line, "failed: "); ok {
			h.error = why
			return h
		}
	}
}

func (h *helper) line() string {
	h.t.Helper()
	if !h.out.Scan() {
		h.t.Fatal("the program ended: ", h.out.Err())
	}
	return h.out.Text()
}

// tell gives it a command and its answer back.
func (h *helper) tell(format string, args ...any) string {
	h.t.Helper()
	if _, err := fmt.Fprintf(h.in, format+"\n", args...); err != nil {
		h.t.Fatal(err)
	}
	return h.line()
}

func (h *helper) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// kill ends it as kill -9 does.
func (h *helper) kill() {
	if h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
}
