package fault

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// killDelay is the time between SIGTERM and SIGKILL to a program that hangs. softrdma exec prints meanwhile
// what its devices have counted.
const killDelay = 3 * time.Second

// execute runs the program once, under softrdma exec with some flags. When the timeout or ctx ends, so does its
// whole process group.
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
	start := time.Now()
	err = c.Run()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what the program has left behind
	}
	o = &outcome{Seconds: time.Since(start).Seconds()}
	if text, e := os.ReadFile(out.Name()); e == nil {
		o.output = string(text)
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
