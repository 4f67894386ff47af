//go:build interop && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// connectTime is how long a client may fail to reach its server. A server needs a moment until it
	// listens and gives no sign when it does.
	connectTime = 10 * time.Second
	again       = 100 * time.Millisecond

	// grace is how long a server may run after its client has ended.
	grace = 10 * time.Second
)

// A row is the result of a program.
type row struct {
	program program
	err     error
}

func (r row) ok() bool { return r.err == nil }

func (r row) String() string {
	switch {
	case r.err != nil:
		return fmt.Sprintf("FAILED  %s: %v", r.program.name(), r.err)
	case r.program.refused != "":
		return "refused " + r.program.name()
	}
	return "ok      " + r.program.name()
}

// A runner runs programs in its network.
type runner struct {
	softrdma string
	engine   string // of softrdma exec; empty for the command's default
	logs     string
	net      *network
	count    int
}

// said collects the output of a program. It may be read while the program still writes.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// command returns one end of a program under softrdma exec, in its own process group. When ctx
// ends, the whole group ends.
func (r *runner) command(ctx context.Context, p *program, end int, argv []string) (*exec.Cmd, *said) {
	addrs, host := loopback, 0
	if p.apart {
		addrs, host = hosts, end
	}
	device := addrs[end]
	if p.iwarp {
		device = "iwarp:" + device
	}
	line := []string{r.softrdma, "exec", "-v", "-d", device}
	if r.engine != "" && !p.iwarp {
		line = append(line, "--engine", r.engine)
	}
	line = append(line, "--")
	names := strings.NewReplacer(serverAddress, addrs[0], clientAddress, addrs[1], logFolder, r.logs)
	for _, a := range argv {
		line = append(line, names.Replace(a))
	}
	line = r.net.at(host, line...)
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Env = append(os.Environ(), "SOFTRDMA_SAME_HOST=off")
	if p.memory {
		c.Env = append(os.Environ(), "SOFTRDMA_SAME_HOST=require", "SOFTRDMA_HOST_DIR="+filepath.Join(r.logs, "host"))
	}
	for _, e := range p.env {
		c.Env = append(c.Env, names.Replace(e))
	}
	out := &said{}
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = grace
	return c, out
}

func (r *runner) run(ctx context.Context, p program) row {
	var client, server string
	err := r.compile(ctx, &p)
	for range p.attempts() {
		if err != nil && client == "" { // it could not be compiled
			break
		}
		attempt, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
		client, server, err = r.meet(attempt, &p)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	r.count++
	text := fmt.Sprintf("%s\n\n--- client\n%s\n--- server\n%s\n%v\n", p.name(), client, server, err)
	if e := os.WriteFile(filepath.Join(r.logs, fmt.Sprintf("%03d-%s.log", r.count, p.client[0])), []byte(text), 0o644); e != nil {
		err = errors.Join(err, e)
	}
	return row{p, err}
}

// meet runs both ends of a program, or the only one, and returns their output.
func (r *runner) meet(ctx context.Context, p *program) (client, server string, err error) {
	serving, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	serverSaid := &said{}
	if p.server != nil {
		var c *exec.Cmd
		c, serverSaid = r.command(serving, p, 0, p.server)
		if err := c.Start(); err != nil {
			return "", "", err
		}
		go func() { done <- c.Wait() }()
	}
	var out *said
	began := time.Now()
	for {
		var c *exec.Cmd
		end := 1
		if p.server == nil {
			end = 0
		}
		c, out = r.command(ctx, p, end, p.client)
		err = c.Run()
		if p.interrupted {
			err = nil
		}
		if err == nil && !strings.Contains(out.String(), p.want) {
			err = fmt.Errorf("no %q in what it said", p.want)
		}
		if err == nil || p.server == nil || ctx.Err() != nil || time.Since(began) > connectTime || strings.Contains(out.String()+serverSaid.String(), p.refused) && p.refused != "" {
			break
		}
		if len(done) > 0 { // the server failed too
			break
		}
		if crashed(err) {
			break // it had reached the server, which now waits for the rest
		}
		time.Sleep(again)
	}
	err = p.judge(ctx, out.String(), err)
	if p.server == nil {
		return out.String(), "", err
	}
	e := r.last(p, end, done, err != nil)
	all := out.String() + serverSaid.String()
	if p.refused != "" {
		if !strings.Contains(all, p.refused) {
			return out.String(), serverSaid.String(), fmt.Errorf("expected to be refused with %q", p.refused)
		}
		return out.String(), serverSaid.String(), nil
	}
	return out.String(), serverSaid.String(), errors.Join(err, e)
}

// lastSignal is the highest signal number.
const lastSignal = 64

// crashed reports whether a signal ended a program. The exit status of exec is then 128 and the signal's number.
func crashed(err error) bool {
	exit := (*exec.ExitError)(nil)
	return errors.As(err, &exit) && exit.ExitCode() > 128 && exit.ExitCode() <= 128+lastSignal
}

// judge returns an error if a client's output or exit is not as expected.
func (p *program) judge(ctx context.Context, out string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.refused != "" && p.server == nil && !strings.Contains(out, p.refused):
		return fmt.Errorf("expected to be refused with %q", p.refused)
	case p.refused != "":
		return nil
	case err != nil:
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// last waits until the server exits, or ends it if it would serve on.
func (r *runner) last(p *program, end context.CancelFunc, done <-chan error, failed bool) error {
	if p.lingers || failed || p.refused != "" {
		end()
		<-done
		return nil
	}
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		return nil
	case <-time.After(grace):
		end()
		<-done
		return fmt.Errorf("the server has not ended %v after its client", grace)
	}
}
