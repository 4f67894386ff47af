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
	// connectTime is how long a client may fail to reach its server.
	connectTime = 10 * time.Second
	again       = 100 * time.Millisecond

	// headStart is the time that a server first gets until it listens.
	headStart = 300 * time.Millisecond

	// grace is how long a server may run after its client has ended.
	grace = 10 * time.Second
)

// A row is the result of a program.
type row struct {
	program program
	err     error
	share   float64 // of the payload that went through devices; 0 where the payload is not known
}

func (r row) ok() bool { return r.err == nil }

func (r row) String() string {
	switch {
	case r.err != nil:
		return fmt.Sprintf("FAILED  %s: %v", r.program.name(), r.err)
	case r.program.refused != "":
		return "refused " + r.program.name()
	case r.program.job != nil && r.program.job.absent != "":
		return "SKIPPED " + r.program.name() + ": " + r.program.job.absent
	}
	if r.share > 0 {
		return fmt.Sprintf("ok      %s: %.0f%% of the payload through devices", r.program.name(), 100*r.share)
	}
	return "ok      " + r.program.name()
}

// A runner runs programs in its network.
type runner struct {
	softrdma string
	engine   string // of softrdma exec; empty for the command's default
	logs     string
	net      *network
	repeats  int // of jobs
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
	if p.job != nil {
		return r.runJob(ctx, p)
	}
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
	return row{program: p, err: errors.Join(err, r.log(&p, client, server, err))}
}

// log writes what a program said to a file.
func (r *runner) log(p *program, client, server string, err error) error {
	r.count++
	text := fmt.Sprintf("%s\n\n--- client\n%s\n--- server\n%s\n%v\n", p.name(), client, server, err)
	return os.WriteFile(filepath.Join(r.logs, fmt.Sprintf("%03d-%s.log", r.count, filepath.Base(p.client[0]))), []byte(text), 0o644)
}

// A server is the serving end of a pair while it runs.
type server struct {
	said *said
	done chan error // receives how it ended
	end  context.CancelFunc
}

func (r *runner) serve(ctx context.Context, p *program) (*server, error) {
	ctx, end := context.WithCancel(ctx)
	c, out := r.command(ctx, p, 0, p.server)
	if err := c.Start(); err != nil {
		end()
		return nil, err
	}
	s := &server{out, make(chan error, 1), end}
	go func() { s.done <- wait(c) }()
	return s, nil
}

// meet runs both ends of a program, or the only one, and returns their output. A server gives no
// sign when it listens, and one that exits after its client may wait for the rest of a client that
// came too early. Both start again then, with more time for the server.
func (r *runner) meet(ctx context.Context, p *program) (client, served string, err error) {
	if p.server == nil {
		out, err := r.runClient(ctx, p, 0)
		return out, "", p.judge(ctx, out, err)
	}
	began := time.Now()
	for wait := headStart; ; wait *= 2 {
		s, err := r.serve(ctx, p)
		if err != nil {
			return "", "", err
		}
		time.Sleep(wait)
		out, err := r.reach(ctx, p, s, began)
		if p.tooEarly(ctx, err, out+s.said.String(), began) {
			s.end()
			<-s.done
			continue
		}
		err = p.judge(ctx, out, err)
		e := s.last(p, err != nil)
		served = s.said.String()
		if p.refused != "" {
			if err = nil; !strings.Contains(out+served, p.refused) {
				err = fmt.Errorf("expected to be refused with %q", p.refused)
			}
			return out, served, err
		}
		return out, served, errors.Join(err, e)
	}
}

// reach runs the client, again and again if the server serves many.
func (r *runner) reach(ctx context.Context, p *program, s *server, began time.Time) (out string, err error) {
	for {
		out, err = r.runClient(ctx, p, 1)
		if !p.lingers || len(s.done) > 0 || !p.tooEarly(ctx, err, out+s.said.String(), began) {
			return out, err
		}
		time.Sleep(again)
	}
}

// runClient runs the client, or the only program, on the device of an end.
func (r *runner) runClient(ctx context.Context, p *program, end int) (string, error) {
	c, out := r.command(ctx, p, end, p.client)
	err := c.Start()
	if err == nil {
		err = wait(c)
	}
	if p.interrupted {
		err = nil
	}
	if err == nil && !strings.Contains(out.String(), p.want) {
		err = fmt.Errorf("no %q in what it said", p.want)
	}
	return out.String(), err
}

// wait waits until a command ends, and kills what it has left: a program that lives on would keep the
// address of its device.
func wait(c *exec.Cmd) error {
	err := c.Wait()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // ESRCH: nothing is left
	return err
}

// tooEarly reports whether a client may have failed because its server did not listen yet. A client
// that crashed has reached its server.
func (p *program) tooEarly(ctx context.Context, err error, said string, began time.Time) bool {
	return err != nil && ctx.Err() == nil && time.Since(began) < connectTime && !crashed(err) &&
		(p.refused == "" || !strings.Contains(said, p.refused))
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
func (s *server) last(p *program, failed bool) error {
	defer s.end()
	if p.lingers || failed || p.refused != "" {
		s.end()
		<-s.done
		return nil
	}
	select {
	case err := <-s.done:
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		return nil
	case <-time.After(grace):
		s.end()
		<-s.done
		return fmt.Errorf("the server has not ended %v after its client", grace)
	}
}
