package compare

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	client = 0
	server = 1
)

// stopGrace is the time that a process has to exit after it was told to.
const stopGrace = 5 * time.Second

// command returns the command that runs one end of the path. It runs in a process group
// of its own, because some commands start programs that outlive them, and poll.
func (p *Path) command(ctx context.Context, end int, argv ...string) *exec.Cmd {
	argv = append(append([]string(nil), p.Inside[end]...), argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = stopGrace
	return cmd
}

// A daemon is a server process that runs until it is stopped.
type daemon struct {
	stop func()
	pid  int // 0 in another machine
}

// startServer starts the server end and, unless ready is empty, waits until it
// prints a line with that text. It returns what was printed so far.
func (p *Path) startServer(ctx context.Context, ready string, argv ...string) (*daemon, string, error) {
	if p.machine != nil {
		stop, err := p.machine.Serve(ctx, ready, argv...)
		return &daemon{stop: stop}, ready, err
	}
	cmd := p.command(ctx, server, argv...)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		return nil, "", err
	}
	lines := bufio.NewScanner(out)
	var said []string
	for ready != "" && lines.Scan() {
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), ready) {
			ready = ""
		}
	}
	go func() { // discards the remaining output; ends with the process
		io.Copy(io.Discard, out)
		out.Close()
	}()
	if ready == "" {
		d := &daemon{pid: cmd.Process.Pid, stop: func() {
			endGroup(cmd.Process)
			defer time.AfterFunc(stopGrace, func() { killGroup(cmd.Process) }).Stop()
			cmd.Wait()
			killGroup(cmd.Process) // what it started and left
		}}
		return d, strings.Join(said, "\n"), nil
	}
	err = cmd.Wait()
	return nil, "", fmt.Errorf("%s: ended before it was ready: %w: %s", argv[0], errors.Join(err, ctx.Err()), strings.Join(said, "; "))
}

// runClient runs the client end, waits for it and returns its output.
func (p *Path) runClient(ctx context.Context, argv ...string) ([]byte, error) {
	if p.machine != nil {
		return p.machine.Run(ctx, argv...)
	}
	cmd := p.command(ctx, client, argv...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		// Some programs print errors to standard output.
		text := strings.TrimSpace(said.String() + "\n" + string(out[max(0, len(out)-500):]))
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, text)
	}
	return out, nil
}

// runClientJSON is runClient for a command of bench, which prints its result in JSON.
func (p *Path) runClientJSON(ctx context.Context, result any, argv ...string) error {
	out, err := p.runClient(ctx, argv...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, result); err != nil {
		return fmt.Errorf("%s: %w", argv[1], err)
	}
	return nil
}

// run runs both ends, and stops the server when the client has ended.
func (p *Path) run(ctx context.Context, ready string, serve, ask []string) ([]byte, error) {
	d, _, err := p.startServer(ctx, ready, serve...)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	return p.runClient(ctx, ask...)
}
