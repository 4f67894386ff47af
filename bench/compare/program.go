package compare

import (
	"context"
	"slices"
	"time"

	"softrdma/preload"
)

// Names of the tools that run unmodified programs with the device in the program's own
// process.
const (
	ProgramName       = "exec --engine program"
	ProgramMemoryName = "exec --engine program --same-host require"
	ProgramUCXName    = "UCX-verbs"
)

// Program measures unmodified perftest under `softrdma exec --engine program`. Each end
// has a device of its own.
type Program struct {
	Path   string // of the command
	Memory bool   // through memory, whatever the path
}

// Name returns ProgramName or ProgramMemoryName.
func (t Program) Name() string {
	if t.Memory {
		return ProgramMemoryName
	}
	return ProgramName
}

// Check returns an error unless perftest is installed and the command contains the
// libraries that exec gives to programs.
func (Program) Check() error {
	if err := checkEngine(); err != nil {
		return err
	}
	return Perftest{}.Check()
}

// Run implements Tool.
func (t Program) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	mode := p.sameHostMode()
	if t.Memory {
		mode = "require"
	}
	under := [2][]string{p.exec(t.Path, "program", mode, client), p.exec(t.Path, "program", mode, server)}
	return Perftest{Device: "rxe0"}.under(ctx, under, p, w, d)
}

// checkEngine returns an error unless the command contains the libraries that exec
// gives to programs.
func checkEngine() error {
	if _, _, err := preload.Engine(); err != nil {
		return err
	}
	_, err := preload.Library()
	return err
}

// inProgram returns the prefix of the command line of a program at an end whose device
// is in its own process.
func (p *Path) inProgram(command string, end int) []string {
	return p.exec(command, "program", p.sameHostMode(), end)
}

// exec returns the prefix of the command line of a program at an end with a device of its own. The
// mode is the value of --same-host.
func (p *Path) exec(command, engine, mode string, end int) []string {
	return []string{command, "exec", "--engine", engine, "-d", p.device(end), "--same-host", mode, "--"}
}

// programFigures returns the figures of unmodified programs, each with a device in its
// own process, compared with `softrdma perf` and with the same programs on TCP.
func programFigures(host bool) []Figure {
	perftest := func(op string, kind Kind, bytes int, m Metric, gate, stretch float64) Figure {
		of := Work{Tool: ProgramName, Kind: kind, Op: op, Bytes: bytes, MTU: 4096}
		against := of
		against.Tool = "softrdma"
		if host && kind == Stream {
			against.Memory = ordinary // as that of programs
		}
		test := "_bw "
		if kind == Ping {
			test = "_lat "
		}
		name := "programs: ib_" + op + test + sizeName(bytes) + ", of softrdma perf"
		return Figure{name, Measure{of, m}, Measure{against, m}, kind == Ping, gate, stretch}
	}
	ucx := func(test string, kind Kind, bytes int, m Metric, gate, stretch float64) Figure {
		of, against := Work{Tool: ProgramUCXName, Kind: kind, Op: test, Bytes: bytes}, Work{Tool: "UCX-TCP", Kind: kind, Op: test, Bytes: bytes}
		name := "programs: UCX " + test + " " + sizeName(bytes) + " over rc_v,ud_v, of TCP"
		return Figure{name, Measure{of, m}, Measure{against, m}, kind == Ping, gate, stretch}
	}
	mpi := func(op string, bytes int) Figure {
		of, against := Work{Tool: MPIName, Kind: Ping, Op: op, Bytes: bytes}, Work{Tool: MPITCPName, Kind: Ping, Op: op, Bytes: bytes}
		name := "programs: Open MPI " + op + " " + sizeName(bytes) + " over rc_v,ud_v, of TCP"
		return Figure{name, Measure{of, P50}, Measure{against, P50}, true, 1, .5}
	}
	latency, tagLatency, tagThroughput := [2]float64{1.5, 1.1}, [2]float64{1.3, .8}, [2]float64{.6, .9}
	if host {
		latency, tagLatency, tagThroughput = [2]float64{2, 1.2}, [2]float64{.5, .2}, [2]float64{1.5, 2.5}
	}
	return slices.Concat([]Figure{
		perftest("write", Ping, word, P50, latency[0], latency[1]),
		perftest("send", Ping, word, P50, latency[0], latency[1]),
		perftest("write", Stream, mib, Throughput, .8, .95),
		perftest("read", Stream, mib, Throughput, .8, .95),
		perftest("send", Stream, mib, Throughput, .8, .95),
		perftest("write", Stream, word, Rate, .6, .9),
		ucx("tag_lat", Ping, word, P50, tagLatency[0], tagLatency[1]),
		ucx("tag_bw", Stream, mib, Throughput, tagThroughput[0], tagThroughput[1]),
		mpi(mpiPing, word),
		mpi(mpiAllReduce, mib),
		mpi(mpiAllToAll, 64<<10),
	}, presenceFigures())
}
