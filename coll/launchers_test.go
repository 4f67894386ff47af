package coll_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"softrdma/coll"
)

// memberOfWorld is the environment variable of a process that joins what a launcher has started.
const memberOfWorld = "SOFTRDMA_TEST_COLL_WORLD"

// joinWorld adds the ranks and prints the sum.
func joinWorld() error {
	ctx := context.Background()
	g, err := coll.World(ctx)
	if err != nil {
		return err
	}
	x := []int{g.Rank(), 1}
	if err := coll.AllReduce(ctx, g, x, x, coll.Sum[int]()); err != nil {
		return err
	}
	if err := coll.Barrier(ctx, g); err != nil {
		return err
	}
	fmt.Printf("sum %d of %d\n", x[0], x[1])
	return g.Close(ctx)
}

// Launchers of others start groups.
func TestWorldUnderOtherLaunchers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"mpiexec.hydra":  {"-n", "3"},
		"mpirun.openmpi": {"-n", "3", "--oversubscribe"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal("CI lacks ", name)
				}
				t.Skip("SKIPPED: this machine lacks ", name)
			}
			cmd := exec.CommandContext(within(t), name, append(args, self)...)
			cmd.Env = append(os.Environ(), memberOfWorld+"=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "sum 3 of 3\n") != 3 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// A launcher that only numbers its programs starts groups, too, if it is told where they meet.
func TestWorldUnderLauncherThatOnlyNumbers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	meet := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	const n = 3
	outputs := make(chan string, n)
	for r := range n {
		cmd := exec.CommandContext(within(t), self)
		cmd.Env = append(os.Environ(), memberOfWorld+"=1", fmt.Sprintf("SLURM_PROCID=%d", r), fmt.Sprintf("SLURM_NTASKS=%d", n),
			"SOFTRDMA_RUN="+meet, "SOFTRDMA_RUN_SECRET="+strings.Repeat("5a", 16), "SOFTRDMA_DEVICE="+loopback(200+r))
		go func() {
			out, err := cmd.CombinedOutput()
			outputs <- fmt.Sprint(string(out), err)
		}()
	}
	for range n {
		if out := <-outputs; out != "sum 3 of 3\n<nil>" {
			t.Error(out)
		}
	}
}

func TestWorldWithoutLauncher(t *testing.T) {
	if _, err := coll.World(within(t)); !errors.Is(err, coll.ErrNotStarted) {
		t.Errorf("%v, expected %v", err, coll.ErrNotStarted)
	}
}
