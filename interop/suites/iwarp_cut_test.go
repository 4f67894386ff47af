//go:build interop && linux

package suites

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

	"softrdma/interop/lab"
	"softrdma/interop/peers"
	"softrdma/interop/peers/exerciser"
)

// relayed is a client whose connections go through a relay that resets them in the middle.
type relayed struct {
	peers.Exerciser
	lab    *lab.Lab
	path   string          // of the relay
	server peers.Exerciser // where the relay leads
	cut    int
}

func (r relayed) Start(ctx context.Context, args []string, v6 bool) (*peers.Program, error) {
	at := slices.Index(args, "--port")
	if at < 0 {
		return nil, errors.New("no --port for the relay to take its own from")
	}
	port, err := strconv.Atoi(args[at+1])
	if err != nil {
		return nil, err
	}
	cm := strconv.Itoa(port + exerciser.CMPortAbove)
	cmd := r.lab.Host(ctx, r.path, "-l", net.JoinHostPort(lab.HostIWARPv4Second, cm), "-a", net.JoinHostPort(r.server.Address(v6), cm), "-cut", strconv.Itoa(r.cut))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	if err := r.lab.WaitListen(ctx, port+exerciser.CMPortAbove); err != nil {
		stop()
		return nil, fmt.Errorf("the relay: %w", err)
	}
	end, err := r.Exerciser.Start(ctx, append(args, "--cm-via", lab.HostIWARPv4Second), v6)
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		<-end.Done
		stop()
	}()
	return end, nil
}

func isCut(s *exerciser.Scenario) bool { return s.Cut != 0 }

// exerciseCut runs the scenarios in which the connection is reset, one at a time.
func exerciseCut(t *testing.T, l *lab.Lab, server, client peers.Exerciser) exerciser.Results {
	t.Helper()
	relay := program(t, l, "interop/peers/relay")
	all, err := exerciser.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	results := exerciser.Results{}
	for i := range all {
		if s := &all[i]; isCut(s) {
			by := relayed{client, l, relay, server, s.Cut}
			got, err := peers.Exercise(within(t, peers.ExerciseTimeout+time.Minute), server, by, []string{s.Name}, false, exerciseMTU)
			if err != nil {
				t.Error(err)
			}
			maps.Copy(results, got)
		}
	}
	return results
}

// Both ends report a TCP reset in mid transfer as siw does with itself.
func TestIWARPResetInMidTransfer(t *testing.T) {
	l := openLab(t)
	soft := peers.Host{Lab: l, Path: program(t, l, "interop/peers/verbspeer"), IWARP: true}
	siw := peers.Siw{Guest: l.Guests[0]}
	for _, role := range []string{exerciser.Server, exerciser.Client} {
		t.Run("softrdma_"+role, func(t *testing.T) {
			want, err := exerciser.ExpectedWithSiw(role)
			if err != nil {
				t.Fatal(err)
			}
			var server, client peers.Exerciser = soft, siw
			if role == exerciser.Client {
				server, client = siw, soft
			}
			checkResults(t, scenarioNames(t, isCut), want, exerciseCut(t, l, server, client))
		})
	}
	peers.AwaitDevice(within(t, cmTimeLimit), t, l.Guests[0], peers.IdleSiw, cmTimeLimit)
}
