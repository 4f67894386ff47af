//go:build interop && linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Environment variables that name suites which this machine's user has built. Debian has no packages
// of them. Without one its rows are skipped by name.
const (
	// mpiSuiteEnv names the program mpi_test_suite of github.com/open-mpi/mpi-test-suite, built for
	// Open MPI with the default of no threads.
	mpiSuiteEnv = "MPI_TEST_SUITE"

	// shmemSuiteEnv names the folder feature_tests/C of github.com/openshmem-org/tests-uh with its
	// programs built for Debian's OpenSHMEM.
	shmemSuiteEnv = "SHMEM_TESTS_UH"
)

// suites returns the suites of others, on both transports of verbs at once.
func suites() []program {
	return append(append(mpiSuite(), shmemSuite()...), hpcc()...)
}

// overBoth returns Open MPI on UCX with both transports of verbs.
func overBoth() way { return overUCX("rc_v,ud_v", "rc_v,ud_v") }

// monitored makes Open MPI count what its ranks send each other. coll sm, which goes through memory
// that the ranks share, is left out. So is the linear all-to-all: it uses persistent requests, which
// pml monitoring treats as those of ob1, and crashes on UCX.
func (w way) monitored() way {
	w.options = "--mca pml ucx,monitoring --mca osc ucx,monitoring --mca coll ^sm " +
		"--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_alltoall_algorithm 2 " + // pairwise
		"--mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename " + logFolder + "/monitoring"
	return w
}

// monitoringFiles are the files of Open MPI's counts, one of each rank.
const monitoringFiles = "monitoring.*.prof"

// monitoredLine is a line of Open MPI's counts: the program's messages (E), those of collective
// operations (I), bytes written to and read from windows (S, R). C counts the operations' own bytes.
var monitoredLine = regexp.MustCompile(`(?m)^[EISR]\t(\d+)\t(\d+)\t(\d+) bytes`)

// monitoredPayload adds what Open MPI says that each rank has sent to others, or has read from them.
func monitoredPayload(said string) (n int64) {
	for _, m := range monitoredLine.FindAllStringSubmatch(said, -1) {
		if m[1] != m[2] {
			n += number(m[3])
		}
	}
	return n
}

// mpiSuiteTypes leaves out datatypes with a lower bound that is not 0: the suite overruns its buffers
// with them.
const mpiSuiteTypes = "all,^MPI_TYPE_MIX_LB_UB,^Dup MPI_TYPE_MIX_LB_UB"

// mpiSuiteComms are communicators of all ranks. In those of some ranks, of more than two, the one-sided
// tests of this suite had not ended after 100 s, with UCX's tcp as well.
const mpiSuiteComms = "MPI_COMM_WORLD,Duplicated MPI_COMM_WORLD,Reversed MPI_COMM_WORLD"

// mpiSuite returns the classes of open-mpi's mpi-test-suite that pass with UCX's tcp. Built for MPICH, most
// of them fail or do not end with tcp.
func mpiSuite() []program {
	file := os.Getenv(mpiSuiteEnv)
	var all []program
	for _, w := range []way{overBoth().monitored(), overUCX("ud_verbs", "ud_v").monitored()} {
		for _, ranks := range []int{2, 4} {
			for _, class := range []string{"Environment", "P2P", "Collective", "One-sided"} {
				argv := []string{cmp.Or(file, "mpi_test_suite"), "-t", class, "-r", "run", "-d", mpiSuiteTypes}
				if class == "One-sided" && ranks > 2 {
					argv = append(argv, "-c", mpiSuiteComms)
				}
				all = append(all, w.places(job{ranks: ranks, argv: argv, suite: "mpi-test-suite", absent: missing(mpiSuiteEnv, file),
					judge: judgeMPISuite, payload: monitoredPayload, reports: []string{monitoringFiles}})...)
			}
		}
	}
	return all
}

// shmemPrograms are those of tests-uh that pass with UCX's tcp. test_shmem_atomics aborts with it. With
// test_shmem_lock it stands still in some runs: rank 0 polls shmem_test_lock, which makes no progress, and
// the holder of the lock waits for rank 0 to answer an atomic.
var shmemPrograms = strings.Fields("accessible barrier broadcast collects finalize get get_globals get_shmem_malloc global_exit " +
	"put put_globals put_shmem_malloc query reduction synchronization zero_get zero_put")

// globalExit is the status with which test_shmem_global_exit ends all of its ranks.
const globalExit = 99

// shmemSuite returns openshmem-org's tests-uh.
func shmemSuite() []program {
	dir := os.Getenv(shmemSuiteEnv)
	absent := missing(shmemSuiteEnv, dir)
	w := overBoth()
	w.launcher, w.over = openSHMEM, "OpenSHMEM, spml ucx, rc_v,ud_v"
	w.options += " --mca spml ucx --mca coll ^sm"
	w.options += " --mca memory ^patcher" // without this it crashes at its end
	w.env = append(w.env, "UCX_LOG_LEVEL=info")
	var all []program
	for _, ranks := range []int{2, 4} {
		for _, name := range shmemPrograms {
			j := job{ranks: ranks, argv: []string{filepath.Join(dir, "test_shmem_"+name+".x")}, suite: "tests-uh", absent: absent, judge: judgeSHMEM}
			if name == "global_exit" {
				j.exit, j.judge = globalExit, nil
			}
			all = append(all, w.places(j)...)
		}
	}
	return all
}

// missing returns why a suite cannot run, or nothing.
func missing(env, file string) string {
	if file == "" {
		return env + " is not set"
	}
	if !filepath.IsAbs(file) {
		return env + " is not an absolute path"
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Sprintf("%s: %v", env, err)
	}
	return ""
}

const (
	hpccExample = "/usr/share/doc/hpcc/examples/_hpccinf.txt"
	hpccInput   = "hpccinf.txt"
	hpccOutput  = "hpccoutf.txt" // hpcc appends to it
)

// hpcc returns the HPC Challenge benchmark with small matrices.
func hpcc() []program {
	w := overBoth().monitored()
	var all []program
	for _, ranks := range []int{2, 4} {
		j := job{ranks: ranks, argv: []string{"hpcc"}, suite: "hpcc", reports: []string{hpccOutput, monitoringFiles}, judge: judgeHPCC, payload: monitoredPayload}
		j.prepare = func(dir string) error { return prepareHPCC(dir, ranks) }
		for _, p := range w.places(j) {
			all = append(all, p.needing("hpcc", "hpcc"))
		}
	}
	return all
}

// prepareHPCC writes hpcc's input: Debian's example with smaller matrices and a grid of the ranks.
func prepareHPCC(dir string, ranks int) error {
	example, err := os.ReadFile(hpccExample)
	if err != nil {
		return err
	}
	lines := strings.Split(string(example), "\n")
	for i, l := range lines {
		switch f := strings.Fields(l); {
		case len(f) != 2:
		case f[1] == "Ns":
			lines[i] = "400 Ns"
		case f[1] == "Ps":
			lines[i] = fmt.Sprintf("%d Ps", ranks/2)
		case f[1] == "Qs":
			lines[i] = "2 Qs"
		}
	}
	return os.WriteFile(filepath.Join(dir, hpccInput), []byte(strings.Join(lines, "\n")), 0o644)
}
