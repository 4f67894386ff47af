//go:build interop && linux

package interop

import (
	"testing"
	"time"
)

// exerciseSoftrdma runs scenarios with softrdma in a role and rxe in the other.
func exerciseSoftrdma(t *testing.T, softrdma string, v6 bool, take func(*Scenario) bool) {
	lab := openLab(t)
	soft := HostExerciser{lab, program(t, lab, "interop/peer")}
	rxe := RxeExerciser{lab.Guests[0]}
	want, err := Expected(softrdma)
	if err != nil {
		t.Fatal(err)
	}
	names := scenarioNames(t, take)
	var server, client Exerciser = soft, rxe
	if softrdma == Client {
		server, client = rxe, soft
	}
	got, err := Exercise(within(t, 150*time.Second), server, client, names, v6, exerciseMTU)
	if err != nil {
		t.Error(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for _, role := range []string{Client, Server} {
				checkResult(t, want[name][role], got[name][role])
			}
		})
	}
}

func goldenScenario(s *Scenario) bool { return s.Golden }

func TestExerciserSoftrdmaServesRxe(t *testing.T) { exerciseSoftrdma(t, Server, false, everyScenario) }

func TestExerciserRxeServesSoftrdma(t *testing.T) { exerciseSoftrdma(t, Client, false, everyScenario) }

func TestExerciserSoftrdmaServesRxeIPv6(t *testing.T) {
	exerciseSoftrdma(t, Server, true, goldenScenario)
}

func TestExerciserRxeServesSoftrdmaIPv6(t *testing.T) {
	exerciseSoftrdma(t, Client, true, goldenScenario)
}
