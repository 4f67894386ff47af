//go:build linux

// The agent is the first process of a guest of the interop lab. It runs the programs that the lab asks for over a
// virtio serial port, and powers the guest off when the lab goes away.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"softrdma/interop/lab/internal/control"
)

func main() {
	// Whatever happens, the guest must end: a process 1 that returns would be a kernel panic.
	defer powerOff()
	port, err := openPort(30 * time.Second)
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return
	}
	a := &agent{out: json.NewEncoder(port), running: map[uint64]*os.Process{}}
	a.send(control.Event{Kind: control.KindReady})
	if err := a.serve(port); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "agent:", err)
	}
	fmt.Fprintln(os.Stderr, "agent: the lab is gone, powering off")
}

func powerOff() {
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// openPort finds the serial port by its name and opens it in blocking mode: the port's poll reports a hang-up before
// the host has connected, which Go's poller would take for the end of the file.
func openPort(timeLimit time.Duration) (*os.File, error) {
	for deadline := time.Now().Add(timeLimit); ; time.Sleep(50 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil || strings.TrimSpace(string(content)) != control.PortName {
				continue
			}
			device := "/dev/" + filepath.Base(filepath.Dir(name))
			fd, err := syscall.Open(device, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
			if err == nil {
				return os.NewFile(uintptr(fd), device), nil
			}
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("open %s: %w", device, err)
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no virtio serial port is named %s", control.PortName)
		}
	}
}

type agent struct {
	outMu sync.Mutex
	out   *json.Encoder

	runningMu sync.Mutex
	running   map[uint64]*os.Process
}

func (a *agent) send(e control.Event) {
	a.outMu.Lock()
	defer a.outMu.Unlock()
	if err := a.out.Encode(e); err != nil {
		fmt.Fprintln(os.Stderr, "agent: send:", err)
	}
}

// serve executes requests until the port gives an error, io.EOF at its end.
func (a *agent) serve(port io.Reader) error {
	in := json.NewDecoder(bufio.NewReaderSize(port, 64<<10))
	for {
		var r control.Request
		if err := in.Decode(&r); err != nil {
			return err
		}
		switch r.Op {
		case control.OpStart:
			go a.run(r)
		case control.OpSignal:
			a.signal(r.ID, syscall.Signal(r.Signal))
		default:
			a.send(control.Event{ID: r.ID, Kind: control.KindFailed, Error: fmt.Sprintf("unknown op %q", r.Op)})
		}
	}
}

func (a *agent) run(r control.Request) {
	if len(r.Argv) == 0 {
		a.send(control.Event{ID: r.ID, Kind: control.KindFailed, Error: "empty argv"})
		return
	}
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	// The lab tests networks, and its hosts are namespaces of one kernel.
	cmd.Env = append(append(os.Environ(), "SOFTRDMA_SAME_HOST=off"), r.Env...)
	cmd.Stdin = strings.NewReader(string(r.Stdin))
	cmd.Stdout = stream{a, r.ID, control.KindStdout}
	cmd.Stderr = stream{a, r.ID, control.KindStderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A program's own children may hold its output open after it has ended.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		a.send(control.Event{ID: r.ID, Kind: control.KindFailed, Error: err.Error()})
		return
	}
	a.track(r.ID, cmd.Process)
	a.send(control.Event{ID: r.ID, Kind: control.KindStarted})
	err := cmd.Wait()
	a.track(r.ID, nil)

	exit := control.Event{ID: r.ID, Kind: control.KindExit}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Status = 128 + int(status.Signal())
	} else {
		exit.Status = cmd.ProcessState.ExitCode()
	}
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
		exit.Error = err.Error()
	}
	a.send(exit)
}

func (a *agent) track(id uint64, p *os.Process) {
	a.runningMu.Lock()
	defer a.runningMu.Unlock()
	if p == nil {
		delete(a.running, id)
	} else {
		a.running[id] = p
	}
}

func (a *agent) signal(id uint64, s syscall.Signal) {
	a.runningMu.Lock()
	p := a.running[id]
	a.runningMu.Unlock()
	if p != nil {
		syscall.Kill(-p.Pid, s)
	}
}

// stream turns what a program writes into events.
type stream struct {
	a    *agent
	id   uint64
	kind control.Kind
}

func (s stream) Write(p []byte) (int, error) {
	s.a.send(control.Event{ID: s.id, Kind: s.kind, Data: p})
	return len(p), nil
}
