package compare

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"softrdma/preload"
)

// ExecName is the name of Exec.
const ExecName = "exec"

// Exec measures unmodified perftest under `softrdma exec`, with devices in processes of
// their own. Both ends use the device of one `softrdma daemon`, which replaces the kernel's
// RDMA device. Program has devices in the programs.
type Exec struct{ Path string } // of the command

// Name returns ExecName.
func (Exec) Name() string { return ExecName }

// Check returns an error unless perftest is installed and the command contains the
// library that exec preloads.
func (Exec) Check() error {
	if _, err := preload.Library(); err != nil {
		return err
	}
	return Perftest{}.Check()
}

// Run implements Tool.
func (e Exec) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	under := [2][]string{{e.Path, "exec", "--engine", "daemon"}, {e.Path, "exec", "--engine", "daemon"}}
	socket, stop, err := e.startDaemon(ctx, p)
	if err != nil {
		return Result{}, err
	}
	defer stop()
	for end := range under {
		under[end] = append(append(under[end], socket...), "--")
	}
	return Perftest{Device: "rxe0"}.under(ctx, under, p, w, d)
}

// startDaemon starts a daemon and returns the flags that name its socket. On this
// machine the socket is a new one, because the user may run a daemon.
func (e Exec) startDaemon(ctx context.Context, p *Path) (socket []string, stop func(), err error) {
	remove := func() {}
	if p.machine == nil {
		dir, err := os.MkdirTemp("", "softrdma-bench-")
		if err != nil {
			return nil, nil, err
		}
		socket = []string{"--socket", filepath.Join(dir, "socket")}
		remove = func() { os.RemoveAll(dir) }
	}
	daemon, _, err := p.startServer(ctx, "serving programs", append([]string{e.Path, "daemon", "-d", p.device(server)}, socket...)...)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return socket, func() {
		daemon.stop()
		remove()
	}, nil
}
