package compare

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"softrdma/bench/loop"
)

// UCX measures UCX over TCP with ucx_perftest.
type UCX struct {
	Shared   bool   // over shared memory (posix) and process_vm_readv (cma) instead
	Programs string // path of the command: over devices in the programs (rc_v, ud_v) instead
}

// Name returns "UCX-TCP", "UCX-shared" or ProgramUCXName.
func (u UCX) Name() string {
	switch {
	case u.Programs != "":
		return ProgramUCXName
	case u.Shared:
		return "UCX-shared"
	}
	return "UCX-TCP"
}

// Check returns an error unless ucx_perftest is installed, and for devices in the programs
// unless the command contains their libraries.
func (u UCX) Check() error {
	if u.Programs != "" {
		if err := checkEngine(); err != nil {
			return err
		}
	}
	return installed("ucx_perftest", "ucx-utils")
}

// Estimates of bytes and messages per second: ucx_perftest takes a number of messages
// and not a duration.
const (
	ucxBytes    = 2e9
	ucxMessages = 1e5
	ucxEmulated = .1 // factor for emulated processors
	ucxShared   = 20 // factor for shared memory
	ucxCopied   = 4  // factor for process_vm_writev
)

// Run implements Tool.
func (u UCX) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	port := strconv.Itoa(int(loop.FreePort()))
	n := int(d.Seconds() * min(ucxMessages, ucxBytes/float64(w.Bytes)))
	switch {
	case p.machine != nil:
		n = int(float64(n) * ucxEmulated)
	case u.Shared && w.Memory == ordinary:
		n *= ucxCopied
	case u.Shared:
		n *= ucxShared
	}
	serve := append(u.env(p, w, server), "ucx_perftest", "-p", port)
	ask := append(u.env(p, w, client), "ucx_perftest", p.Server.String(), "-p", port, "-t", w.Op, "-s", strconv.Itoa(w.Bytes),
		"-n", strconv.Itoa(max(n, 100)), "-w", strconv.Itoa(max(n/10, 10)), "-f", "-v")
	s, _, err := p.startServer(ctx, "", serve...)
	if err != nil {
		return Result{}, err
	}
	defer s.stop()
	var out []byte
	for range 50 { // ucx_perftest does not report that it listens
		if out, err = p.runClient(ctx, ask...); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return Result{}, err
	}
	return parseUCX(string(out), w.Kind)
}

// parseUCX parses the last line of ucx_perftest -v -f: iterations, then latency
// (median, average, overall), bandwidth and message rate.
func parseUCX(out string, k Kind) (Result, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		v, err := numbers(lines[i])
		if err != nil || len(v) != 8 {
			continue
		}
		if k == Ping {
			return Result{Result: loop.Result{P50: v[1]}}, nil
		}
		return Result{Result: loop.Result{Throughput: v[5] * (1 << 20), Rate: v[7]}}, nil
	}
	return Result{}, fmt.Errorf("ucx_perftest: expected a line of 8 numbers, found %q", lines[len(lines)-1])
}

func numbers(line string) ([]float64, error) {
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' })
	if len(fields) == 0 {
		return nil, errors.New("empty")
	}
	v := make([]float64, len(fields))
	for i, f := range fields {
		var err error
		if v[i], err = strconv.ParseFloat(f, 64); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// env returns the command that sets UCX's environment. For TCP it selects the network
// interface, because UCX would use the loopback interface between two ends on one
// machine, even if they are in different namespaces.
func (u UCX) env(p *Path, w Work, end int) []string {
	transports := "tcp,self"
	if u.Shared {
		transports = "posix,cma,self"
	}
	if u.Programs != "" {
		return append(p.inProgram(u.Programs, end), "env", "UCX_TLS=rc_v,ud_v,self", "UCX_NET_DEVICES=rxe0:1", "UCX_WARN_UNUSED_ENV_VARS=n")
	}
	env := []string{"env", "UCX_TLS=" + transports, "UCX_WARN_UNUSED_ENV_VARS=n"}
	if d := p.Device[end]; d != "" && !u.Shared {
		env = append(env, "UCX_NET_DEVICES="+d)
	}
	if w.Memory == ordinary {
		// UCX takes memory from POSIX shared memory if it can choose. Then put writes
		// to the peer's memory directly. From the heap it uses process_vm_writev.
		env = append(env, "UCX_ALLOC_PRIO=heap")
	}
	return env
}
