package fault

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killDelay is the time between SIGTERM and SIGKILL to a program that hangs. softrdma exec prints meanwhile
// what its devices have counted.
const killDelay = 3 * time.Second

// execute runs the program once, under softrdma exec with some flags. When the timeout or ctx ends, so do its
// whole process group and the processes that have left it, such as workers of fio: they would hold the device's
// address in the next run.
func execute(ctx context.Context, flags, program []string, timeout time.Duration) (o *outcome, timedOut bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, false, err
	}
	dir, err := os.MkdirTemp("", "softrdma-fault-")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(dir)
	// A file, not a pipe: processes that leave the group must not keep this one waiting.
	out, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return nil, false, err
	}
	defer out.Close()
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(limit, self, append(append([]string{"exec", "-v"}, flags...), append([]string{"--"}, program...)...)...)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = killDelay
	// Orphans become children of this process.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
	start := time.Now()
	err = c.Run()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what the program has left behind
		endOrphans()
	}
	o = &outcome{Seconds: time.Since(start).Seconds()}
	if at, e := out.Stat(); e == nil {
		o.output = excerpt(out, at.Size())
	}
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) && limit.Err() == nil {
		return nil, false, err
	}
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	o.Code = code(err)
	return o, limit.Err() != nil, nil
}

// endOrphans kills the children of this process, and theirs in turn, until there are none. It is called while
// this process waits for none of its own.
func endOrphans() {
	for list := children(); len(list) > 0; list = children() {
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range list {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
}

// children returns the children of this process.
func children() (list []int) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is right
	for _, file := range tasks {
		text, _ := os.ReadFile(file) // a thread may have ended
		for _, f := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(f) // the kernel's number
			list = append(list, pid)
		}
	}
	slices.Sort(list)
	return list
}
