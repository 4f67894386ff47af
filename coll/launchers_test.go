package coll_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"softrdma/coll"
	"softrdma/internal/testenv"
)

// memberOfWorld is the environment variable of a process that joins what a launcher has started. With
// the value "host" it says on which host.
const memberOfWorld = "SOFTRDMA_TEST_COLL_WORLD"

// joinWorld adds the ranks and prints the sum.
func joinWorld(value string) error {
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
	place := ""
	if value == "host" {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		place = " on " + name
	}
	fmt.Printf("sum %d of %d%s\n", x[0], x[1], place)
	return g.Close(ctx)
}

// Launchers of others start groups. Open MPI's has PMIx, in two formats, and a directory for those
// that speak neither.
func TestWorldUnderOtherLaunchers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const openMPI, noDirectory = "mpirun.openmpi -n 3 --oversubscribe ", "env -u PMIX_SERVER_TMPDIR "
	for name, line := range map[string]string{
		"PMI-1":                     "mpiexec.hydra -n 3",
		"PMIx":                      openMPI + noDirectory,
		"PMIx, format of version 3": openMPI + noDirectory + "-u PMIX_SERVER_URI41 -u PMIX_SERVER_URI4",
		"directory":                 openMPI + "env -u PMIX_SERVER_URI41 -u PMIX_SERVER_URI3",
	} {
		t.Run(name, func(t *testing.T) {
			argv := append(strings.Fields(line), self)
			testenv.Programs(t, argv[0])
			cmd := exec.CommandContext(within(t), argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), memberOfWorld+"=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "sum 3 of 3\n") != 3 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// A PMIx server of an unknown version, without a directory, is named by the error.
func TestWorldUnderUnknownPMIx(t *testing.T) {
	testenv.Programs(t, "mpirun.openmpi")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), "mpirun.openmpi", "-n", "1", "env", "-u", "PMIX_SERVER_TMPDIR", "-u", "PMIX_SERVER_URI41", "-u", "PMIX_SERVER_URI3", self)
	cmd.Env = append(os.Environ(), memberOfWorld+"=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"PMIX_VERSION", "with PMIX_SERVER_URI4, PMIX_SERVER_URI21", "expected PMIX_SERVER_URI41 or PMIX_SERVER_URI3", "set SOFTRDMA_RUN"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s, expected %q in it", err, out, want)
		}
	}
}

// A launcher that only numbers its programs starts groups, too, if it is told where they meet.
func TestWorldUnderLauncherThatOnlyNumbers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	meet := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "tcp"))
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
