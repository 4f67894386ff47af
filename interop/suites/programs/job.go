//go:build interop && linux

package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A job is how mpirun or a shell starts the ranks of a program: on one device, or on two hosts with
// a device each. With two hosts every second rank is on the other one.
type job struct {
	launcher launcher
	over     string   // the library and the components of it that carry messages
	options  []string // of the launcher, which choose these components
	ranks    int
	apart    bool // on two hosts
	fabric   bool // on ports of an InfiniBand fabric, one for each host
	argv     []string

	// payload reads from the program's output how many bytes the ranks have sent each other. If
	// payload is nil, that number is not known: the devices of all ranks must have carried some
	// bytes, and the library must report that it used nothing but verbs.
	payload func(said string) int64

	// For suites of other projects, see joblist_suites.go.
	suite   string                  // its name, under which the page lists its programs
	absent  string                  // why it cannot run on this machine
	prepare func(dir string) error  // makes the program's files in its folder
	reports []string                // patterns of files that the program writes, read after what it said
	exit    int                     // the exit status that it should end with
	judge   func(said string) error // reads the program's own checks
}

// A launcher is what starts ranks: the mpirun of a library, or a shell.
type launcher uint8

const (
	openMPI launcher = iota
	mpich
	openSHMEM // of Open MPI
	shell
)

// name returns the name for the output and for -run.
func (j *job) name() string {
	name := filepath.Base(j.argv[0])
	if j.suite != "" {
		name = j.suite + ": " + j.title()
	}
	return fmt.Sprintf("ranks: %s, %s, %s", name, j.over, j.place())
}

// title returns the command line without its folder.
func (j *job) title() string {
	return strings.Join(append([]string{filepath.Base(j.argv[0])}, j.argv[1:]...), " ")
}

func (j *job) place() string {
	if j.apart {
		return fmt.Sprintf("%d ranks on two hosts", j.ranks)
	}
	return fmt.Sprintf("%d ranks on one device", j.ranks)
}

// command returns the command line that starts the ranks. The agent starts those of the other
// host.
func (j *job) command(agent string, env []string) []string {
	if j.launcher == shell {
		return j.inShell(agent)
	}
	var names, line []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	list := fmt.Sprintf("%s:%d,%s:%d", hosts[0], (j.ranks+1)/2, hosts[1], j.ranks/2)
	switch j.launcher {
	case mpich: // with all of the environment the other host's ranks would use this host's device
		line = []string{"mpirun.mpich", "-genvlist", strings.Join(append(names, "PATH"), ",")}
		if j.apart {
			line = append(line, "-launcher", "ssh", "-launcher-exec", agent, "-localhost", hosts[0], "-hosts", list)
		}
	default:
		start := "mpirun.openmpi"
		if j.launcher == openSHMEM {
			start = "oshrun"
		}
		line = append(line, start, "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
		for _, n := range names {
			line = append(line, "-x", n)
		}
		if j.apart {
			line = append(line, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--host", list, "--map-by", "node")
		}
	}
	line = append(line, j.options...)
	return append(append(line, "-np", strconv.Itoa(j.ranks)), j.argv...)
}

var (
	carried   = regexp.MustCompile(`payload: \d+ bytes sent, (\d+) received`)
	exchanged = regexp.MustCompile(`exchanged everything right: (\d+) bytes`)
	netpipe   = regexp.MustCompile(`\d+: +(\d+) bytes +(\d+) times`)
)

// throughDevices returns how many bytes of payload the devices say that they have received, each
// once, and how many devices have received any.
func throughDevices(said string) (n int64, devices int) {
	for _, m := range carried.FindAllStringSubmatch(said, -1) {
		n += number(m[1])
		devices += int(min(number(m[1]), 1))
	}
	return n, devices
}

// exchangePayload reads what testdata/exchange.c says.
func exchangePayload(said string) int64 {
	if m := exchanged.FindStringSubmatch(said); m != nil {
		return number(m[1])
	}
	return 0
}

// netpipeTrials is how often NetPIPE repeats what it lists for a size.
const netpipeTrials = 3

// netpipePayload reads NetPIPE's list of sizes. It sends each message both ways.
func netpipePayload(said string) (n int64) {
	for _, m := range netpipe.FindAllStringSubmatch(said, -1) {
		n += 2 * netpipeTrials * number(m[1]) * number(m[2])
	}
	return n
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // 0 for what has no such number
	return n
}
