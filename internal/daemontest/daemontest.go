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

	"softrdma/internal/uverbs"
	"softrdma/verbs"
)

// environment makes TestDaemonProcess a daemon: on the socket that comes first,
// with the devices behind it.
const environment = "SOFTRDMA_TEST_DAEMON"

// Serve is the daemon. It serves until its input ends, and fails where programs
// have left something then.
func Serve(t *testing.T) {
	args := strings.Fields(os.Getenv(environment))
	if len(args) == 0 {
		t.Skip("not a test: others run it")
	}
	var devices []*verbs.Device
	for _, name := range args[1:] {
		dev, err := verbs.Open(name, verbs.Config{})
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

// A Process is a daemon that runs.
type Process struct {
	cmd   *exec.Cmd
	in    io.Closer
	dir   string
	names map[string]string // of its devices by what they were opened by
}

// Start starts a daemon with devices on addresses, of iWARP behind "iwarp:". It
// is killed with the test.
func Start(t testing.TB, devices ...string) *Process {
	t.Helper()
	dir, err := os.MkdirTemp("", "daemon") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{
		cmd: exec.Command("/proc/self/exe", "-test.run=^TestDaemonProcess$", "-test.v"), dir: dir, names: make(map[string]string),
	}
	p.cmd.Env = append(os.Environ(), environment+"="+p.Socket()+" "+strings.Join(devices, " "))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
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
		os.RemoveAll(dir)
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if names, ok := strings.CutPrefix(lines.Text(), "serving "); ok {
			for i, name := range strings.Fields(names) {
				p.names[devices[i]] = name
			}
			return p
		}
		t.Log(lines.Text())
	}
	t.Fatal("the daemon ended")
	return nil
}

// Socket is the path of its socket.
func (p *Process) Socket() string { return filepath.Join(p.dir, "socket") }

// Name is what package verbs calls one of its devices.
func (p *Process) Name(device string) string { return "daemon:" + p.Socket() + "/" + p.names[device] }

// End ends the daemon in order: the test fails where its programs have left
// something.
func (p *Process) End(t testing.TB) {
	t.Helper()
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		t.Errorf("the daemon: %v", err)
	}
}

// Kill kills it.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
