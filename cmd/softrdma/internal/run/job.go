package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/launch"
)

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 5 * time.Second

// A job is the work of one host.
type job struct {
	Program          []string
	Dir              string
	Env              []string // in addition to the host's
	Device           string
	Host             string // in the user's notation
	First, Ranks     int
	Size             int
	Exchange, Secret string
}

// An ending describes how a rank ended.
type ending struct {
	Rank, Code int
	Text       string
}

func (e *ending) error(host string) error {
	return cli.ProgramError(e.Code, fmt.Errorf("rank %d on %s: %s", e.Rank, host, e.Text))
}

// environment returns the variables of a rank.
func (j *job) environment(local int) []string {
	rank := j.First + local
	env := append(os.Environ(), j.Env...)
	set := func(name, value string) { env = append(env, name+"="+value) }
	set(launch.EnvRank, strconv.Itoa(rank))
	set(launch.EnvSize, strconv.Itoa(j.Size))
	set(launch.EnvLocalRank, strconv.Itoa(local))
	set(launch.EnvLocalSize, strconv.Itoa(j.Ranks))
	set(launch.EnvExchange, j.Exchange)
	set(launch.EnvSecret, j.Secret)
	if j.Device != "" {
		set(launch.EnvDevice, strings.NewReplacer("{rank}", strconv.Itoa(rank), "{local}", strconv.Itoa(local)).Replace(j.Device))
	}
	return env
}

// run runs the ranks until all have ended, and returns the ending of the first that failed, or
// nil. When one fails or ctx ends, it ends the others. Rank 0 gets the input.
func (j *job) run(ctx context.Context, out *outputs, stdin io.Reader, signals <-chan os.Signal) *ending {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failure *ending
	fail := func(e *ending) {
		mu.Lock()
		defer mu.Unlock()
		if failure == nil && e != nil && ctx.Err() == nil {
			failure = e
			cancel()
		}
	}
	var running sync.WaitGroup
	var started []*exec.Cmd
	for local := range j.Ranks {
		rank := j.First + local
		c := exec.CommandContext(ctx, j.Program[0], j.Program[1:]...)
		c.Dir, c.Env = j.Dir, j.environment(local)
		c.SysProcAttr = cli.KillWithParent()
		c.Cancel = func() error { return terminate(c.Process) }
		c.WaitDelay = killDelay
		stdout, stderr := out.writer(rank, false), out.writer(rank, true)
		c.Stdout, c.Stderr = stdout, stderr
		if rank == 0 {
			c.Stdin = stdin
		}
		if err := c.Start(); err != nil {
			fail(&ending{rank, cli.ExitCode(cli.StartError(err)), err.Error()})
			break
		}
		started = append(started, c)
		running.Go(func() {
			err := c.Wait()
			if err == nil {
				out.ended(rank)
			}
			fail(endingOf(rank, err))
			stdout.flush()
			stderr.flush()
		})
	}
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			return failure
		case s := <-signals:
			for _, c := range started {
				_ = c.Process.Signal(s) // it may have ended
			}
		}
	}
}

// endingOf describes the end of a rank. It returns nil if the rank succeeded.
func endingOf(rank int, err error) *ending {
	var e *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // a child of the rank keeps its output open
		return nil
	case !errors.As(err, &e):
		return &ending{rank, cli.ExitFailed, err.Error()}
	}
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return &ending{rank, 128 + int(s.Signal()), "ended by signal: " + s.Signal().String()}
	}
	return &ending{rank, e.ExitCode(), fmt.Sprintf("exit code %d", e.ExitCode())}
}
