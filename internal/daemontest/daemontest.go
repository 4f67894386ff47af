//go:build linux

package daemontest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"softrdma/internal/testenv"
	"softrdma/internal/uverbs"
	"softrdma/verbs"
)

// environment holds the arguments of a daemon: the path of its socket and the names
// of its devices. TestDaemonProcess is a daemon where it is set.
const environment = "SOFTRDMA_TEST_DAEMON"

// Serve is the daemon process, whose RoCE v2 devices share their addresses. It serves until its standard input ends, and fails if
// programs have left objects then.
func Serve(t *testing.T) {
	ServeOpened(t, func(name string) (*verbs.Device, error) { return verbs.Open(name, verbs.Config{Shared: true}) })
}

// ServeOpened is Serve with devices that open opens by the names which [Start] was
// given.
func ServeOpened(t *testing.T, open func(name string) (*verbs.Device, error)) {
	args := strings.Fields(os.Getenv(environment))
	if len(args) == 0 {
		t.Skip("not a test: others run it")
	}
	var devices []*verbs.Device
	for _, name := range args[1:] {
		dev, err := open(name)
		if err != nil {
			t.Fatal(err)
		}
		devices = append(devices, dev)
	}
	server, err := uverbs.Serve(uverbs.Config{Devices: devices, Dir: filepath.Dir(args[0]), Socket: args[0]})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("serving", strings.Join(server.Devices(), " "))
	_, _ = io.Copy(io.Discard, os.Stdin)
	if n := server.Count(); n.Objects != 0 {
		t.Errorf("programs left %+v", n)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
}

// A Process is a running daemon.
type Process struct {
	cmd   *exec.Cmd
	in    io.Closer
	dir   string
	names map[string]string // of its devices, by the names that they were opened by
}

// Start starts a daemon with devices, given by their names as verbs.Open has them.
// It is killed when the test ends.
func Start(t testing.TB, devices ...string) *Process {
	t.Helper()
	p := &Process{
		cmd: exec.Command("/proc/self/exe", "-test.run=^TestDaemonProcess$", "-test.v"), dir: testenv.SocketDir(t), names: make(map[string]string),
	}
	p.cmd.Env = append(os.Environ(), environment+"="+p.Socket()+" "+strings.Join(devices, " "))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if names, ok := strings.CutPrefix(lines.Text(), "serving "); ok {
			served := strings.Fields(names)
			for i, name := range served[:min(len(served), len(devices))] {
				p.names[devices[i]] = name
			}
			return p
		}
		t.Log(lines.Text())
	}
	t.Fatal("the daemon ended before it served")
	return nil
}

// Socket is the path of its socket.
func (p *Process) Socket() string { return filepath.Join(p.dir, "socket") }

// Name returns the name by which verbs.Open finds the address of one of its devices.
func (p *Process) Name(device string) string { return "shared:" + p.Socket() + "/" + p.names[device] }

// Stop makes the daemon end in order, and does not wait.
func (p *Process) Stop() error { return p.in.Close() }

// End ends the daemon in order. The test fails if its programs have left objects.
func (p *Process) End(t testing.TB) {
	t.Helper()
	if err := errors.Join(p.Stop(), p.cmd.Wait()); err != nil {
		t.Errorf("the daemon: %v", err)
	}
}

// Kill ends the daemon as kill -9 does.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
