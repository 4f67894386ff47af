//go:build interop && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"softrdma/internal/testenv/twohosts"
)

const jobLimit = 3 * time.Minute

// runJob runs a job as often as asked, until it fails.
func (r *runner) runJob(ctx context.Context, p program) row {
	result := row{program: p}
	if p.job.absent != "" {
		return result
	}
	if result.err = r.compile(ctx, &p); result.err != nil {
		return result
	}
	if p.job.fabric {
		end, err := r.fabric(ctx)
		if err != nil {
			result.err = err
			return result
		}
		defer end()
	}
	for range max(r.repeats, 1) {
		said, share, err := r.launch(ctx, &p)
		if result.err = errors.Join(err, r.log(&p, said, "", err)); result.err != nil {
			return result
		}
		if result.share == 0 || share < result.share {
			result.share = share
		}
	}
	return result
}

// launch runs a job once. It returns what all its processes said, and the share of its payload
// that went through devices.
func (r *runner) launch(ctx context.Context, p *program) (said string, share float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, jobLimit, fmt.Errorf("not done after %v", jobLimit))
	defer cancel()
	if err := r.net.idle(ctx); err != nil {
		return "", 0, err
	}
	if p.job.prepare != nil {
		if err := p.job.prepare(r.logs); err != nil {
			return "", 0, err
		}
	}
	if _, err := takeFiles(r.logs, p.job.reports); err != nil { // of a run before
		return "", 0, err
	}
	agent := filepath.Join(r.logs, "agent")
	// The other host has its own device.
	if err := twohosts.WriteAgent(agent, hosts[0], r.net.at(1, r.under(p, 1)...)); err != nil {
		return "", 0, err
	}
	said, err = r.ranks(ctx, p, append(r.under(p, 0), p.job.command(agent, p.env)...))
	if ctx.Err() != nil {
		return said, 0, context.Cause(ctx)
	}
	if p.job.exit != 0 {
		err = exits(err, p.job.exit)
	}
	if err == nil {
		var reports []byte
		reports, err = takeFiles(r.logs, p.job.reports)
		said += string(reports)
	}
	share, err = p.judgeJob(said, err, r.engine == engineDaemon)
	return said, share, err
}

// takeFiles returns what is in the files of a folder that match patterns, and removes them.
func takeFiles(dir string, patterns []string) (all []byte, err error) {
	for _, p := range patterns {
		names, e := filepath.Glob(filepath.Join(dir, p))
		err = errors.Join(err, e)
		for _, name := range names {
			b, e := os.ReadFile(name)
			all, err = append(all, b...), errors.Join(err, e, os.Remove(name))
		}
	}
	return all, err
}

// exits returns an error if a command did not end with an exit status.
func exits(err error, status int) error {
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) && exit.ExitCode() == status {
		return nil
	}
	return fmt.Errorf("ended with %v, expected exit status %d", err, status)
}

// under returns the beginning of a command line that gives a program the device of a host.
func (r *runner) under(p *program, host int) []string {
	line := []string{r.softrdma, "exec", "-v"}
	switch {
	case p.job.fabric:
		line = append(line, "-d", fmt.Sprintf("ib:%s/node-%d", fabricName(), host))
	default:
		line = append(line, "-d", hosts[host])
		if r.engine != "" {
			line = append(line, "--engine", r.engine)
		}
	}
	return append(line, "--")
}

// ranks runs a command line that starts ranks, and returns what they said.
func (r *runner) ranks(ctx context.Context, p *program, line []string) (string, error) {
	names := strings.NewReplacer(logFolder, r.logs)
	for i, a := range line {
		line[i] = names.Replace(a)
	}
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Dir = r.logs
	c.Env = append(append(os.Environ(), "SOFTRDMA_SAME_HOST=off"), p.env...)
	out := &said{}
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = grace
	err := c.Start()
	if err == nil {
		err = wait(c)
	}
	return out.String(), err
}

// fabricName returns the name of the fabric that this process starts.
func fabricName() string { return fmt.Sprintf("programs-%d", os.Getpid()) }

// fabric starts a fabric of two adapters and returns when its ports are active. end ends it.
func (r *runner) fabric(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, r.softrdma, "fabric", "up", "--topology", "star:2", "--name", fabricName())
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = grace
	out := &said{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	end = func() {
		cancel()
		<-ended
	}
	for began := time.Now(); !strings.Contains(out.String(), "subnet manager set it up"); time.Sleep(again) {
		if len(ended) > 0 || time.Since(began) > limit {
			end()
			return nil, fmt.Errorf("softrdma fabric: %s", out)
		}
	}
	return end, nil
}
