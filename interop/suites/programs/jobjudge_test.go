//go:build interop && linux

package main

import (
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

// checkJudged fails if a judgement is not what was wanted: no error, or one with these words.
func checkJudged(t *testing.T, said string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%q: judged %v, want %q", said, err, want)
	}
}
