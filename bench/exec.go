package bench

import (
	"context"
	"time"

	"softrdma/preload"
)

// Names of Exec.
const (
	ExecName       = "exec"
	ExecSharedName = "exec --share-memory"
)

// Exec measures unmodified perftest under `softrdma exec`. Both ends use the device of
// one `softrdma daemon`, which replaces the kernel's RDMA device.
type Exec struct {
	Path  string // of the command
	Share bool   // both ends share their memory with the daemon
}

// Name returns ExecName or ExecSharedName.
func (e Exec) Name() string {
	if e.Share {
		return ExecSharedName
	}
	return ExecName
}

// Lack returns an error unless perftest is installed and the command contains the
// library that exec preloads.
func (Exec) Lack() error {
	if _, err := preload.Library(); err != nil {
		return err
	}
	return Perftest{}.Lack()
}

// Run implements Tool.
func (e Exec) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	daemon, _, err := p.startServer(ctx, "serving programs", e.Path, "daemon", "-d", p.device(server))
	if err != nil {
		return Result{}, err
	}
	defer daemon.stop()
	prefix := []string{e.Path, "exec"}
	if e.Share {
		prefix = append(prefix, "--share-memory")
	}
	return Perftest{Device: "rxe0"}.under(ctx, append(prefix, "--"), p, w, d)
}
