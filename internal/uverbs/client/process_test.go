//go:build linux

package client

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// After exec a process has new memory, perhaps with other rights. It is not accessed.
func TestMemoryOfAnotherUserEndsWithItsProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: running a program as another user needs root")
	}
	user := &syscall.Credential{Uid: 65534, Gid: 65534}
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
	p := &Process{PID: c.Process.Pid, UID: user.Uid, GID: user.Gid, Account: NewBudget(0).NewAccount(), pidfd: os.NewFile(uintptr(fd), "pidfd")}
	defer p.Close()
	if err := p.openMemory(); err != nil {
		t.Fatal(err)
	}
	stack := stackOf(t, p.PID)
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
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
		if strings.HasPrefix(filepath.Base(name), "sleep") || strings.HasSuffix(name, "coreutils") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the process still runs %s", name)
		}
	}
	stack = stackOf(t, p.PID)
	if err := p.Load(b[:], stack); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("reading the new program: %v", err)
	}
	if err := p.Store(stack, b[:]); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("writing to the new program: %v", err)
	}
}

// stackOf returns an address of a process's stack.
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

// A process has exited when it has ended, whether or not its parent knows, and has not when it executes
// another program.
func TestExitedProcess(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", "read line; exec cat")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
	p := &Process{PID: c.Process.Pid}
	if p.Exited() {
		t.Error("a process that runs has exited")
	}
	if _, err := in.Write([]byte("\nx")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // from cat
		t.Fatal(err)
	}
	if p.Exited() {
		t.Error("a process that has executed another program has exited")
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err == nil { // its descriptors are closed
		t.Error("a killed process writes")
	}
	if !p.Exited() {
		t.Error("a killed process has not exited before its parent waits")
	}
	_ = c.Wait()
	if !p.Exited() {
		t.Error("a process that was waited for has not exited")
	}
}
