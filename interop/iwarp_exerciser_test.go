//go:build interop && linux

package interop

import (
	"maps"
	"testing"
	"time"
)

// TestBaselineSiwAgainstSiw plays the scenarios that iWARP has with siw at both ends.
func TestBaselineSiwAgainstSiw(t *testing.T) {
	lab := openLab(t)
	names := scenarioNames(t, (*Scenario).OverIWARP)
	server, client := SiwExerciser{RxeExerciser{lab.Guests[1]}}, SiwExerciser{RxeExerciser{lab.Guests[0]}}
	got, err := Exercise(within(t, exercisePatience+time.Minute), server, client, names, false, exerciseMTU)
	if err != nil {
		t.Error(err)
	}
	maps.Copy(got, exerciseCut(t, lab, server, client))
	names = append(names, scenarioNames(t, isCut)...)
	if *updateBaseline {
		if t.Failed() {
			t.Fatal("not recorded")
		}
		writeBaseline(t, "siw_baseline.json", lab.Kernel.Version, names, got)
		return
	}
	want, err := ExpectedWithSiw(Nobody)
	if err != nil {
		t.Fatal(err)
	}
	checkResults(t, names, want, got)
}

// exerciseWithSiw runs scenarios with softrdma in a role and siw in the other.
func exerciseWithSiw(t *testing.T, softrdma string, v6 bool, take func(*Scenario) bool) {
	lab := openLab(t)
	soft := HostExerciser{Lab: lab, Path: program(t, lab, "interop/peer"), IWARP: true}
	siw := SiwExerciser{RxeExerciser{lab.Guests[0]}}
	want, err := ExpectedWithSiw(softrdma)
	if err != nil {
		t.Fatal(err)
	}
	names := scenarioNames(t, take)
	var server, client Exerciser = soft, siw
	if softrdma == Client {
		server, client = siw, soft
	}
	got, err := Exercise(within(t, exercisePatience+time.Minute), server, client, names, v6, exerciseMTU)
	if err != nil {
		t.Error(err)
	}
	checkResults(t, names, want, got)
}

func TestExerciserSoftrdmaServesSiw(t *testing.T) {
	exerciseWithSiw(t, Server, false, (*Scenario).OverIWARP)
}

func TestExerciserSiwServesSoftrdma(t *testing.T) {
	exerciseWithSiw(t, Client, false, (*Scenario).OverIWARP)
}

func goldenIWARP(s *Scenario) bool { return s.Golden && s.OverIWARP() }

func TestExerciserSoftrdmaServesSiwIPv6(t *testing.T) { exerciseWithSiw(t, Server, true, goldenIWARP) }

func TestExerciserSiwServesSoftrdmaIPv6(t *testing.T) { exerciseWithSiw(t, Client, true, goldenIWARP) }
