//go:build interop && linux

package main

import (
	"errors"
	"strings"
	"testing"
)

func TestJudgeMPISuiteWantsTestsThatPass(t *testing.T) {
	const one = "P2P tests Ring (5/26), comm MPI_COMM_WORLD (1/13), type MPI_INT (7/28)\n"
	for said, want := range map[string]string{
		one + "Number of failed tests: 0\n": "",
		one + "Number of failed tests: 3\n": "3 of its tests failed",
		one:                                 "did not say how many",
		"Number of failed tests: 0\n":       "ran no test",
	} {
		checkJudged(t, said, judgeMPISuite(said), want)
	}
}

func TestJudgeSHMEMWantsChecksThatPass(t *testing.T) {
	for said, want := range map[string]string{
		"Test shmem_put: Passed\nAll Tests Passed\n":        "",
		"Test shmem_put: Passed\nTest shmem_get: Failed\n":  "shmem_get: Failed",
		"Test shmem_put: Passed\n1 Tests FAILED\n":          "1 Tests FAILED",
		"Number of PEs must be > 1 to test, test skipped\n": "did not say that a check passed",
	} {
		checkJudged(t, said, judgeSHMEM(said), want)
	}
}

// hpccReport has the lines of a report that judgeHPCC reads, from a run of two ranks.
var hpccReport = "5 tests completed and passed residual checks.\n0 tests completed and failed residual checks.\n" +
	"1 tests completed and passed residual checks,\n0 tests completed and failed residual checks,\n" +
	strings.Repeat("Found 0 errors in 65536 locations (passed).\n", 4) + strings.Repeat("Node(s) with error 0\n", 8) +
	"Success=1\nMPIRandomAccess_LCG_Errors=0\nMPIRandomAccess_Errors=0\nMPIFFT_maxErr=1.047e-15\n"

func TestJudgeHPCCWantsEveryCheck(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"0 tests completed and failed residual checks,", "1 tests completed and failed residual checks,", "1 residual checks failed"},
		{"1 tests completed and passed", "0 tests completed and passed", "passed in 1 sections"},
		{"Found 0 errors", "Found 7 errors", "Found 7 errors"},
		{"with error 0", "with error 1", "with error 1"},
		{"LCG_Errors=0", "LCG_Errors=2", "MPIRandomAccess_LCG_Errors=2"},
		{"\nMPIRandomAccess_Errors=0", "", "13 counts"},
		{"1.047e-15", "1.0e-3", "MPIFFT_maxErr=1.0e-3"},
		{"1.047e-15", "nan", "MPIFFT_maxErr=nan"},
		{"MPIFFT_maxErr", "FFT", "no MPIFFT_maxErr"},
		{"Success=1", "Success=0", "no Success=1"},
	} {
		said := strings.Replace(hpccReport, c.from, c.to, 1)
		checkJudged(t, c.from+" → "+c.to, judgeHPCC(said), c.want)
	}
}

func TestOnlyVerbsRefusesOtherTransports(t *testing.T) {
	const (
		head  = "[1795802985.246707] [vm:28639:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg"
		verbs = head + "[1]: rma(rc_verbs/rxe0:1) amo_am(ud_verbs/rxe0:1)\n"
		self  = head + "[0]: tag(self/memory0 rc_verbs/rxe0:1)\n"
	)
	for said, want := range map[string]string{
		verbs:                                    "",
		self + verbs:                             "",
		self + head + "[0]: tag(self/memory0)\n": "",
		head + "[0]: tag(self/memory0)\n":        "did not say",
		verbs + head + "[2]: tag(rc_verbs/rxe0:1 tcp/lo)\n":              "UCX uses tcp/lo",
		verbs + head + "[2]: rma(sysv/memory) amo_am(rc_verbs/rxe0:1)\n": "UCX uses sysv/memory",
		"": "did not say",
	} {
		checkJudged(t, said, onlyVerbs(said), want)
	}
}

func TestMonitoredPayloadCountsWhatOtherRanksGet(t *testing.T) {
	const said = "# POINT TO POINT\nE\t0\t0\t27045000 bytes\t1125 msgs sent\t0,0\nE\t0\t1\t57 bytes\t3 msgs sent\t170,32\n" +
		"I\t0\t1\t1000 bytes\t1584 msgs sent\n# OSC\nS\t0\t0\t8546000 bytes\t772 msgs sent\nS\t0\t1\t20000 bytes\t1025 msgs sent\n" +
		"R\t0\t1\t300000 bytes\t495 msgs sent\n# COLLECTIVES\nC\t0\t1\t143058 bytes\t17445 msgs sent\nD\tMPI_COMM_WORLD\tprocs: 0,1\n"
	if n := monitoredPayload(said); n != 321057 {
		t.Errorf("%d bytes, expected 321057", n)
	}
}

func TestJudgeJobWantsPayloadThroughDevices(t *testing.T) {
	const (
		ends  = "softrdma: payload: 90 bytes sent, 100 received\n"
		verbs = "UCX  INFO    ep_cfg[1]: tag(rc_verbs/rxe0:1)\n"
	)
	sent := func(n int64) func(string) int64 { return func(string) int64 { return n } }
	refused := errors.New("exit status 1")
	for _, c := range []struct {
		what   string
		job    job
		said   string
		err    error
		daemon bool
		want   string
	}{
		{"all of it", job{payload: sent(200)}, ends + ends, nil, false, ""},
		{"too little of it", job{payload: sent(203)}, ends + ends, nil, false, "98.52% of 203 bytes"},
		{"no count", job{payload: sent(0)}, ends + ends, nil, false, "did not say how many"},
		{"a device for each rank", job{ranks: 2}, verbs + ends + ends, nil, false, ""},
		{"a rank without payload", job{ranks: 2}, verbs + ends + "softrdma: payload: 50 bytes sent, 0 received\n", nil, false, "1 devices received payload, expected 2"},
		{"one daemon", job{ranks: 4}, verbs + ends, nil, true, ""},
		{"a daemon on one of two hosts", job{ranks: 4, apart: true}, verbs + ends, nil, true, "1 devices received payload, expected 2"},
		{"no word of transports", job{ranks: 2}, ends + ends, nil, false, "did not say that an endpoint"},
		{"ranks that were ended", job{ranks: 2, exit: 99}, verbs, nil, false, ""},
		{"ranks that were ended without verbs", job{ranks: 2, exit: 99}, "", nil, false, "did not say that an endpoint"},
		{"a failure", job{payload: sent(200)}, ends + ends, refused, false, "exit status 1"},
		{"a suite's check", job{payload: sent(200), judge: judgeSHMEM}, ends + ends, nil, false, "did not say that a check passed"},
	} {
		_, err := (&program{job: &c.job}).judgeJob(c.said, c.err, c.daemon)
		checkJudged(t, c.what, err, c.want)
	}
}

// checkJudged fails if a judgement is not what was wanted: no error, or one with these words.
func checkJudged(t *testing.T, said string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%q: judged %v, want %q", said, err, want)
	}
}
