//go:build interop && linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"
)

// relayed is a client whose connections go by a relay that resets them in the middle.
type relayed struct {
	Exerciser
	lab    *Lab
	path   string    // of the relay
	server Exerciser // where the relay leads
	cut    int
}

func (r relayed) start(ctx context.Context, args []string, v6 bool) (running, error) {
	at := slices.Index(args, "--port")
	if at < 0 {
		return nil, errors.New("no --port for the relay to take its own from")
	}
	port, err := strconv.Atoi(args[at+1])
	if err != nil {
		return nil, err
	}
	cm := strconv.Itoa(port + CMPortAbove)
	cmd := r.lab.Host(ctx, r.path, "-l", net.JoinHostPort(HostIWARPv4Second, cm), "-a", net.JoinHostPort(r.server.Address(v6), cm), "-cut", strconv.Itoa(r.cut))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	if err := r.lab.WaitListen(ctx, port+CMPortAbove); err != nil {
		stop()
		return nil, fmt.Errorf("the relay: %w", err)
	}
	end, err := r.Exerciser.start(ctx, append(args, "--cm-via", HostIWARPv4Second), v6)
	if err != nil {
		stop()
		return nil, err
	}
	return relayedRunning{end, stop}, nil
}

type relayedRunning struct {
	running
	stop func()
}

func (r relayedRunning) wait(ctx context.Context) (string, error) {
	defer r.stop()
	return r.running.wait(ctx)
}

func isCut(s *Scenario) bool { return s.Cut != 0 }

// exerciseCut runs the scenarios in which the connection is reset, each by itself.
func exerciseCut(t *testing.T, lab *Lab, server, client Exerciser) Results {
	t.Helper()
	relay := program(t, lab, "interop/relay")
	all, err := Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	results := Results{}
	for i := range all {
		if s := &all[i]; isCut(s) {
			by := relayed{client, lab, relay, server, s.Cut}
			got, err := Exercise(within(t, exercisePatience+time.Minute), server, by, []string{s.Name}, false, exerciseMTU)
			if err != nil {
				t.Error(err)
			}
			maps.Copy(results, got)
		}
	}
	return results
}

// A reset of TCP in mid transfer is told of at both ends as siw tells itself.
func TestIWARPResetInMidTransfer(t *testing.T) {
	lab := openLab(t)
	soft := HostExerciser{Lab: lab, Path: program(t, lab, "interop/peer"), IWARP: true}
	siw := SiwExerciser{RxeExerciser{lab.Guests[0]}}
	for _, role := range []string{Server, Client} {
		t.Run("softrdma_"+role, func(t *testing.T) {
			want, err := ExpectedWithSiw(role)
			if err != nil {
				t.Fatal(err)
			}
			var server, client Exerciser = soft, siw
			if role == Client {
				server, client = siw, soft
			}
			checkResults(t, scenarioNames(t, isCut), want, exerciseCut(t, lab, server, client))
		})
	}
	checkDevice(within(t, cmPatience), t, lab.Guests[0], idleSiw, cmPatience)
}
