package compare

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Names of MPI.
const (
	MPIName    = "Open MPI-verbs"
	MPITCPName = "Open MPI-TCP"
)

// Operations of MPI, as testdata/mpi.c names them.
const (
	mpiPing      = "ping-pong"
	mpiAllReduce = "all-reduce"
	mpiAllToAll  = "alltoall"
)

//go:embed testdata/mpi.c
var mpiSource []byte

// MPI measures two ranks of Open MPI with a program of its own, over UCX. On TCP it
// measures the same program over UCX's TCP, and on a host four ranks in its own way.
type MPI struct {
	Path string // of the command, whose device both ranks share
	TCP  bool
	Host bool
}

// Name returns MPIName, MPITCPName or MPIHostName.
func (m MPI) Name() string {
	switch {
	case m.Host:
		return MPIHostName
	case m.TCP:
		return MPITCPName
	}
	return MPIName
}

// Check returns an error unless Open MPI is installed, with its compiler, and the command
// contains the libraries that exec gives to programs.
func (m MPI) Check() error {
	if err := installed("mpicc.openmpi", "libopenmpi-dev"); err != nil {
		return err
	}
	if err := installed("mpirun.openmpi", "openmpi-bin"); err != nil || m.TCP || m.Host {
		return err
	}
	return checkEngine()
}

// Run implements Tool. P50 of the result is the time of one operation.
func (m MPI) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	dir, err := os.MkdirTemp("", "softrdma-bench-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	source, program := filepath.Join(dir, "mpi.c"), filepath.Join(dir, "mpi")
	if err := os.WriteFile(source, mpiSource, 0o644); err != nil {
		return Result{}, err
	}
	if _, err := p.runClient(ctx, "mpicc.openmpi", "-O2", "-o", program, source); err != nil {
		return Result{}, err
	}
	out, err := p.runClient(ctx, m.command(p, program, w, d)...)
	if err != nil {
		return Result{}, err
	}
	return parseMPI(string(out))
}

// command returns the command line of both ranks.
func (m MPI) command(p *Path, program string, w Work, d time.Duration) []string {
	transports, devices := "rc_v,ud_v,self", "rxe0:1"
	var argv []string
	ranks := 2
	switch {
	case m.Host:
		ranks = groupRanks
	case m.TCP:
		transports, devices = "tcp,self", "all"
	default:
		argv = p.inProgram(m.Path, client)
	}
	argv = append(argv, "mpirun.openmpi", "-n", strconv.Itoa(ranks), "--oversubscribe", "--bind-to", "none")
	if !m.Host {
		argv = append(argv,
			"--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "--mca", "mpi_yield_when_idle", "0",
			"-x", "UCX_TLS="+transports, "-x", "UCX_NET_DEVICES="+devices, "-x", "UCX_WARN_UNUSED_ENV_VARS=n")
	}
	if os.Geteuid() == 0 {
		argv = append(argv, "--allow-run-as-root")
	}
	return append(argv, program, w.Op, strconv.Itoa(w.Bytes), strconv.FormatFloat(d.Seconds(), 'g', -1, 64))
}

// parseMPI parses the line of testdata/mpi.c: the number of operations, and the median
// of their times.
func parseMPI(out string) (Result, error) {
	var r Result
	var n int
	line := strings.TrimSpace(out)
	if _, err := fmt.Sscanf(line, "operations %d median_us %f", &n, &r.P50); err != nil || n <= 0 || r.P50 <= 0 {
		return Result{}, fmt.Errorf("program of Open MPI: expected a number of operations and their median, found %q", line)
	}
	return r, nil
}
