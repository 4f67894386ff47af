package samehost

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// An agent is a device in a separate process, which is another run of this test program. It
// reads commands from standard input, one per line, and answers each with a line.
type agent struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

const agentVariable = "SAMEHOST_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(agentVariable) != "" {
		serveCommands()
		return
	}
	os.Exit(m.Run())
}

// startAgent starts a process. It skips the test if this user may not start one with these
// attributes.
func startAgent(t *testing.T, attributes *syscall.SysProcAttr) *agent {
	t.Helper()
	a := &agent{t: t, cmd: exec.Command("/proc/self/exe"), lines: make(chan string)}
	a.cmd.Env = append(os.Environ(), agentVariable+"=1")
	a.cmd.Stderr = os.Stderr
	a.cmd.SysProcAttr = attributes
	in, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.in = in
	if err := a.cmd.Start(); err != nil {
		if errors.Is(err, os.ErrPermission) {
			t.Skipf("SKIPPED: a process with other rights or namespaces cannot be started: %v", err)
		}
		t.Fatal(err)
	}
	go func() {
		defer close(a.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			a.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		for range a.lines {
			continue
		}
		_ = a.cmd.Wait()
	})
	return a
}

// ask sends a command and returns its answer.
func (a *agent) ask(format string, args ...any) string {
	a.t.Helper()
	if _, err := fmt.Fprintf(a.in, format+"\n", args...); err != nil {
		a.t.Fatal(err)
	}
	select {
	case s, ok := <-a.lines:
		if !ok {
			a.t.Fatalf("%q: the process has ended", format)
		}
		return s
	case <-time.After(timeLimit):
		a.t.Fatalf("%q: no answer", format)
		return ""
	}
}

// expect sends a command and checks its answer.
func (a *agent) expect(want, format string, args ...any) {
	a.t.Helper()
	if got := a.ask(format, args...); got != want {
		a.t.Errorf("%s: answered %q, expected %q", fmt.Sprintf(format, args...), got, want)
	}
}

// serveCommands is the main function of an agent's process.
func serveCommands() {
	var s served
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		f := strings.Fields(in.Text())
		text, err := s.do(f[0], f[1:])
		var e *reason.Error
		switch {
		case errors.As(err, &e):
			text = e.Reason()
		case err != nil:
			text = err.Error()
		}
		fmt.Println(text)
	}
	if s.device != nil {
		s.close()
	}
}

type served struct {
	*device
	segment *memory.Segment
}

// do executes a command. Its answer is "ok" if the command has no other.
func (s *served) do(command string, args []string) (string, error) {
	switch command {
	case "open": // directory, address, mode, users
		mode, err := ParseMode(args[2])
		if err == nil {
			s.device, err = newDevice(Config{Dir: args[0], Local: addr(args[1]), Mode: mode, Allow: args[3:]})
		}
		return "ok", err
	case "bind": // address: what a device's link does
		_, err := net.ListenPacket("udp", args[0])
		return "ok", err
	case "listen": // directory, name: a socket that accepts no connection
		_, err := net.Listen("unixpacket", filepath.Join(args[0], args[1]))
		return "ok", err
	case "link": // directory, name: another name of this device's socket
		return "ok", os.Link(filepath.Join(args[0], s.Name()), filepath.Join(args[0], args[1]))
	case "reach": // address, milliseconds
		ms, err := strconv.Atoi(args[1])
		if err != nil {
			return "", err
		}
		return "ok", s.Reach(addr(args[0]), 0, time.Duration(ms)*time.Millisecond)
	case "wait": // attached, detached
		return "ok", s.until(func(attached, detached int) bool { return fmt.Sprint(attached, detached) == strings.Join(args, " ") })
	case "send":
		from := s.latest()
		return "ok", send(from, 0, 0, []byte(args[0]))
	case "receive":
		return "ok", receive(s.latest(), 0, 0, []byte(args[0]))
	case "offer":
		m, err := newShared(4096)
		if err != nil {
			return "", err
		}
		copy(m.Mem, args[0])
		s.segment = m
		s.latest().Far.Offer(m)
		return fmt.Sprint(m.ID), nil
	case "offered":
		return fmt.Sprint(s.latest().Far.Offered(s.segment.ID)), nil
	case "confine": // directory: all that this process sees of the file system, except /proc
		return "ok", confine(args[0])
	case "close":
		return "ok", s.Host.Close()
	case "end":
		RemoveNames()
		return "ok", nil
	}
	return "", fmt.Errorf("unknown command %q", command)
}

// confine makes an empty tree with only the directory and a new /proc, and makes it the root.
func confine(dir string) error {
	root := filepath.Join(filepath.Dir(dir), "root-"+strconv.Itoa(os.Getpid()))
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		os.MkdirAll(root, 0o755),
		unix.Mount("tmpfs", root, "tmpfs", 0, ""),
		os.MkdirAll(root+"/shared", 0o755), os.MkdirAll(root+"/proc", 0o755),
		unix.Mount(dir, root+"/shared", "", unix.MS_BIND, ""),
		unix.Mount("proc", root+"/proc", "proc", 0, ""),
	)
	if err != nil {
		return err
	}
	return errors.Join(unix.Chroot(root), os.Chdir("/"))
}
