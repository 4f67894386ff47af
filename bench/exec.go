package bench

import (
	"context"
	"time"

	"softrdma/preload"
)

// The names of Exec.
const (
	ExecName       = "exec"
	ExecSharedName = "exec --share-memory"
)

// Exec measures perftest unchanged under `softrdma exec`, both ends on the one
// device of a `softrdma daemon`, which stands where a kernel's RDMA device does.
type Exec struct {
	Path  string // of the command
	Share bool   // both ends share their memory with the daemon
}

// Name is ExecName or ExecSharedName.
func (e Exec) Name() string {
	if e.Share {
		return ExecSharedName
	}
	return ExecName
}

// Lack tells whether perftest is installed and the command has the library that
// exec preloads.
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
