// Package launch is the interface between a launcher of parallel programs and the programs:
// the environment that identifies ranks, and the exchange of a value of each rank. It also
// supports other launchers. It opens no device and starts no process.
package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// The environment of a program that `softrdma run` starts.
const (
	EnvRank      = "SOFTRDMA_RANK"
	EnvSize      = "SOFTRDMA_SIZE"
	EnvLocalRank = "SOFTRDMA_LOCAL_RANK"
	EnvLocalSize = "SOFTRDMA_LOCAL_SIZE"
	EnvExchange  = "SOFTRDMA_RUN"        // host and port of the exchange
	EnvSecret    = "SOFTRDMA_RUN_SECRET" // hexadecimal digits
	EnvDevice    = "SOFTRDMA_DEVICE"     // for verbs.Open
)

// MaxRanks is the largest number of ranks.
const MaxRanks = 1 << 12

// MaxValue is the length of the longest value of an exchange, in bytes.
const MaxValue = 1 << 10

// ErrNotStarted is returned if no launcher has started the program.
var ErrNotStarted = errors.New("no launcher has started this program: expected the environment of softrdma run, mpirun, srun or another launcher with PMI")

// A Job is a program's place among the programs that were started together.
type Job struct {
	Rank, Size           int
	LocalRank, LocalSize int
	Device               string // wanted by the launcher, usually ""
	ID                   string // equal at all ranks, and different for each job
	Remote               string // host and port of the launcher, or ""

	exchange func(ctx context.Context, value []byte) ([][]byte, error)
	board    board // used instead of exchange if not nil
}

// A board stores values of ranks at a launcher.
type board interface {
	// share publishes a value under a key, and returns those of all ranks.
	share(ctx context.Context, key string, value []byte) ([][]byte, error)
	// leave tells the launcher that this rank no longer uses the board.
	leave() error
	// close releases what leave has not released.
	close()
}

// Exchange publishes this rank's value and returns those of all. All ranks call it, once.
func (j *Job) Exchange(ctx context.Context, value []byte) ([][]byte, error) {
	if len(value) > MaxValue {
		return nil, fmt.Errorf("launch: value of %d bytes, expected at most %d", len(value), MaxValue)
	}
	if j.board == nil {
		return j.exchange(ctx, value)
	}
	defer j.Close()
	values, err := j.board.share(ctx, "address", value)
	if err != nil {
		return nil, err
	}
	return values, j.board.leave()
}

// Close closes the connection to the launcher. A rank calls it if it does not call Exchange.
func (j *Job) Close() {
	if j.board != nil {
		j.board.close()
	}
}

// names are the variables by which a launcher identifies ranks.
type names struct{ rank, size, localRank, localSize string }

var launchers = []names{
	{EnvRank, EnvSize, EnvLocalRank, EnvLocalSize},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
}

// FromEnvironment returns this program's job.
func FromEnvironment() (*Job, error) { return find(os.Getenv) }

func find(get func(string) string) (*Job, error) {
	for _, n := range launchers {
		if get(n.rank) == "" {
			continue
		}
		j, err := n.job(get)
		if err != nil {
			return nil, err
		}
		return j, j.connect(get)
	}
	return nil, ErrNotStarted
}

// job reads the rank numbers. Without local ranks every program may be on a different host.
func (n *names) job(get func(string) string) (*Job, error) {
	j := &Job{Device: get(EnvDevice), LocalSize: 1}
	var err error
	read := func(v *int, name string, low, high int) {
		text := get(name)
		if err != nil || text == "" && v != &j.Rank && v != &j.Size {
			return
		}
		i, wrong := strconv.Atoi(text)
		if wrong != nil || i < low || i > high {
			err = fmt.Errorf("launch: %s is %q, expected %d to %d", name, text, low, high)
			return
		}
		*v = i
	}
	read(&j.Size, n.size, 1, MaxRanks)
	read(&j.Rank, n.rank, 0, j.Size-1)
	read(&j.LocalSize, n.localSize, 1, j.Size)
	read(&j.LocalRank, n.localRank, 0, j.Size-1)
	if err == nil && (n.localSize == "" || get(n.localSize) == "") {
		err = j.slurm(get)
	}
	return j, err
}

// connect chooses the means of exchange: softrdma's own, PMI, PMIx, or a directory of this
// host.
func (j *Job) connect(get func(string) string) error {
	switch {
	case get(EnvExchange) != "":
		secret, err := ParseSecret(get(EnvSecret))
		if err != nil {
			return err
		}
		j.ID, j.Remote = get(EnvSecret), get(EnvExchange)
		c := Client{Address: j.Remote, Secret: secret, Rank: j.Rank, Size: j.Size, Serve: j.Rank == 0 && get(EnvRank) == "", Wait: DefaultWait}
		j.exchange = c.Exchange
	case get("PMI_FD") != "":
		return j.connectPMI(get("PMI_FD"))
	default:
		return j.connectPMIx(get)
	}
	return nil
}
