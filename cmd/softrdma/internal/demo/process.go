package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
)

// endTimeout limits the time until the second process ends after its standard input has
// ended.
const endTimeout = 10 * time.Second

// A secondProcess is the second process, as the first one sees it.
type secondProcess struct {
	control *measure.Control
	cmd     *exec.Cmd
	cancel  context.CancelFunc
	stop    func() // ends the process and waits for it
}

// startSecondProcess runs this program as the second process, which opens one of the
// devices, with the given flags. The returned context ends when the process does. The
// process ends when its standard input does, so that it cannot outlive this one.
func startSecondProcess(ctx context.Context, devices, flags []string) (*secondProcess, context.Context, error) {
	self, err := executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, append([]string{"demo", peerCommand, strings.Join(devices, ",")}, flags...)...)
	cmd.SysProcAttr = cli.KillWithParent()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the second process of the demo: %w", err)
	}
	p := &secondProcess{cmd: cmd}
	p.stop = sync.OnceFunc(p.end)
	p.control, ctx, p.cancel = measure.NewControl(ctx, out, in)
	return p, ctx, nil
}

// executable returns the path of this program. Linux provides it in /proc, which a
// container may lack; then executable uses the name by which the program was called.
func executable() (string, error) {
	self, err := os.Executable()
	if err == nil {
		return self, nil
	}
	if called, lookErr := exec.LookPath(os.Args[0]); lookErr == nil {
		return filepath.Abs(called)
	}
	return "", fmt.Errorf("find the path of this program, to start it a second time: %w", err)
}

func (p *secondProcess) end() {
	p.control.Send(&measure.Message{Do: measure.DoBye})
	kill := time.AfterFunc(endTimeout, func() { p.cmd.Process.Kill() })
	p.cmd.Wait() // also closes the pipes
	kill.Stop()
	p.cancel()
}

// explain adds to an error how the second process ended. The process must have been
// stopped.
func (p *secondProcess) explain(err error) error {
	if state := p.cmd.ProcessState; errors.Is(err, measure.ErrPeerGone) && state != nil && !state.Success() {
		return fmt.Errorf("%w (the demo's second process ended with: %v; if the system ended it for lack of memory, try --size 32M)", err, state)
	}
	return err
}

const peerCommand = "peer"

// newPeerCommand returns the command that the second process runs.
func newPeerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    peerCommand + " DEVICE,...",
		Short:  "The second process of the demo, which the first one starts",
		Args:   cli.Args(1, 1, "DEVICE,..."),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Ctrl-C reaches both processes. The first one decides what to do.
			signal.Ignore(os.Interrupt, syscall.SIGHUP)
			return runPeer(cmd, strings.Split(args[0], ","), os.Stdin, cmd.OutOrStdout())
		},
	}
	cli.AddIWARPFlags(cmd) // the first process passes them on
	return cmd
}

// runPeer serves the first process until it says goodbye or has gone. It sends errors
// to the first process and does not print them.
func runPeer(cmd *cobra.Command, devices []string, in io.Reader, out io.Writer) error {
	c, ctx, cancel := measure.NewControl(cmd.Context(), in, out)
	defer cancel()
	err := serve(ctx, cmd, c, devices)
	if err != nil && ctx.Err() == nil {
		c.Fail(err)
	}
	return nil
}

// serve runs a session for each path.
func serve(ctx context.Context, cmd *cobra.Command, c *measure.Control, devices []string) error {
	m, err := c.Expect(ctx, measure.DoConnect)
	for err == nil && m != nil {
		m, err = serveSession(ctx, cmd, c, devices, m)
	}
	return err
}

// serveSession runs the session that begins with a request to connect. It returns the
// request that begins the next session, or nil after the last one.
func serveSession(ctx context.Context, cmd *cobra.Command, c *measure.Control, devices []string, m *measure.Message) (*measure.Message, error) {
	dev, err := openFirst(cmd, devices, m.SameHost)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	s, err := newServer(ctx, dev, c, m)
	if err != nil {
		return nil, err
	}
	defer s.side.Close()
	return s.run(ctx)
}
