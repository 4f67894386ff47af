package coll

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"

	"softrdma/internal/launch"
	"softrdma/internal/tlsfiles"
	"softrdma/msg"
	"softrdma/verbs"
)

// ErrNotStarted is matched by the error of World in a program that no launcher has started.
var ErrNotStarted = launch.ErrNotStarted

// World returns the group of the programs that were started together by `softrdma run`, by a launcher
// with version 1 of PMI, such as MPICH's mpiexec and Slurm's `srun --mpi=pmi2`, or with PMIx, such as
// mpirun of Open MPI and `srun --mpi=pmix`. It opens a device and makes a worker on it, which Close
// of the group closes. A program calls World once.
//
// It fails if a rank does not call it within five minutes of the first one, or within what
// `softrdma run --exchange-timeout` says, and names the ranks that are missing. A rank that
// `softrdma run` started and that ends without calling it is missing at once. With PMI the launcher
// decides how long ranks wait.
//
// The variable SOFTRDMA_PSK_FILE, or SOFTRDMA_TLS_CERT with SOFTRDMA_TLS_KEY and SOFTRDMA_TLS_CA, names files with which
// the device encrypts: those of the flags of `softrdma run`, which sets them. All ranks need the same.
//
// With other launchers the variables SOFTRDMA_RUN and SOFTRDMA_RUN_SECRET say how to exchange
// addresses. docs/coll.md describes the environment, and the versions of PMIx.
func World(ctx context.Context) (*Group, error) {
	j, err := launch.FromEnvironment()
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if err := j.Locate(ctx); err != nil {
		return nil, fmt.Errorf("coll: rank %d: %w", j.Rank, err)
	}
	dev, err := open(j)
	if err != nil {
		return nil, fmt.Errorf("coll: device of rank %d: %w", j.Rank, err)
	}
	w, err := msg.NewWorker(dev, msg.Config{})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	end := func() error { return errors.Join(w.Close(), dev.Close()) }
	addresses, err := j.Exchange(ctx, w.Address())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("coll: rank %d: %w", j.Rank, err), end())
	}
	g, err := New(ctx, w, Config{Rank: j.Rank, Addresses: addresses, Device: dev})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	g.after = end
	return g, nil
}

// open opens a device of this program's own. On one host it has a loopback address: Linux has a
// whole network of them, other systems have ports. For several hosts it has the address from
// which the launcher is reached, or what SOFTRDMA_DEVICE says, and each program of the host a port.
func open(j *launch.Job) (*verbs.Device, error) {
	security, err := tlsfiles.FromEnvironment()
	if err != nil {
		return nil, err
	}
	cfg := verbs.Config{TLS: security}
	if j.Device != "" {
		return verbs.Open(j.Device, cfg)
	}
	if j.LocalSize == j.Size && runtime.GOOS == "linux" {
		id := sha256.Sum256([]byte(j.ID))
		return verbs.Open(fmt.Sprintf("127.%d.%d.%d", 192+id[0]%60, id[1], 1+j.LocalRank%254), cfg)
	}
	host := "127.0.0.1"
	if j.LocalSize < j.Size {
		if j.Remote == "" {
			return nil, fmt.Errorf("%s is not set, and the launcher does not say how hosts reach each other", launch.EnvDevice)
		}
		c, err := net.Dial("udp", j.Remote) // sends nothing
		if err != nil {
			return nil, err
		}
		host, _, err = net.SplitHostPort(c.LocalAddr().String())
		if e := c.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, err
		}
	}
	return verbs.Open(net.JoinHostPort(host, strconv.Itoa(verbs.Port+1+j.LocalRank)), cfg)
}
