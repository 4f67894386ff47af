//go:build interop && linux

package suites

import (
	"maps"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
	"softrdma/interop/peers/exerciser"
)

// TestBaselineSiwAgainstSiw plays the scenarios that iWARP has with siw at both ends.
func TestBaselineSiwAgainstSiw(t *testing.T) {
	l := openLab(t)
	names := scenarioNames(t, (*exerciser.Scenario).OverIWARP)
	server, client := peers.Siw{Guest: l.Guests[1]}, peers.Siw{Guest: l.Guests[0]}
	got, err := peers.Exercise(within(t, peers.ExerciseTimeout+time.Minute), server, client, names, false, exerciseMTU)
	if err != nil {
		t.Error(err)
	}
	maps.Copy(got, exerciseCut(t, l, server, client))
	names = append(names, scenarioNames(t, isCut)...)
	if *updateBaseline {
		if t.Failed() {
			t.Fatal("not recorded")
		}
		writeBaseline(t, "siw_baseline.json", l.Kernel.Version, names, got)
		return
	}
	want, err := exerciser.ExpectedWithSiw(exerciser.None)
	if err != nil {
		t.Fatal(err)
	}
	checkResults(t, names, want, got)
}

// exerciseWithSiw runs scenarios with softrdma in a role and siw in the other.
func exerciseWithSiw(t *testing.T, softrdma string, v6 bool, take func(*exerciser.Scenario) bool) {
	l := openLab(t)
	soft := peers.Host{Lab: l, Path: program(t, l, "interop/peers/verbspeer"), IWARP: true}
	siw := peers.Siw{Guest: l.Guests[0]}
	want, err := exerciser.ExpectedWithSiw(softrdma)
	if err != nil {
		t.Fatal(err)
	}
	names := scenarioNames(t, take)
	var server, client peers.Exerciser = soft, siw
	if softrdma == exerciser.Client {
		server, client = siw, soft
	}
	ctx := within(t, portTries*(peers.ExerciseTimeout+time.Minute))
	var got exerciser.Results
	err = lab.Retry(t, portTries, portTaken, func(int) (err error) {
		got, err = peers.Exercise(ctx, server, client, names, v6, exerciseMTU)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	checkResults(t, names, want, got)
}

// Linux's connection manager chooses the port of an id without asking TCP. siw cannot connect
// from a port that TCP still has from a connection before.
const portTries = 3

func portTaken(err error) bool { return strings.Contains(err.Error(), "Failed to Connect. Errno: 98") }

func TestExerciserSoftrdmaServesSiw(t *testing.T) {
	exerciseWithSiw(t, exerciser.Server, false, (*exerciser.Scenario).OverIWARP)
}

func TestExerciserSiwServesSoftrdma(t *testing.T) {
	exerciseWithSiw(t, exerciser.Client, false, (*exerciser.Scenario).OverIWARP)
}

func goldenIWARP(s *exerciser.Scenario) bool { return s.Golden && s.OverIWARP() }

func TestExerciserSoftrdmaServesSiwIPv6(t *testing.T) {
	exerciseWithSiw(t, exerciser.Server, true, goldenIWARP)
}

func TestExerciserSiwServesSoftrdmaIPv6(t *testing.T) {
	exerciseWithSiw(t, exerciser.Client, true, goldenIWARP)
}
