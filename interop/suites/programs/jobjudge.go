//go:build interop && linux

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// leastShare is the share of the payload that devices must have carried.
const leastShare = 0.99

// judgeJob judges the output of a program's ranks and how they ended. It returns the share of their
// payload that went through devices, if that is known. With the daemon's engine ranks share a device.
func (p *program) judgeJob(said string, err error, daemon bool) (share float64, _ error) {
	j := p.job
	switch {
	case p.refused != "" && !strings.Contains(said, p.refused):
		return 0, fmt.Errorf("expected to be refused with %q", p.refused)
	case p.refused != "":
		return 0, nil
	case err != nil:
		return 0, err
	case !strings.Contains(said, p.want):
		return 0, fmt.Errorf("no %q in what it said", p.want)
	}
	if j.judge != nil {
		if err := j.judge(said); err != nil {
			return 0, err
		}
	}
	carried, devices := throughDevices(said)
	if j.payload == nil {
		expected := j.ranks
		switch {
		case j.exit != 0: // ranks that are ended say nothing more
			expected = 0
		case daemon && j.apart:
			expected = len(hosts)
		case daemon:
			expected = 1
		}
		if devices < expected {
			return 0, fmt.Errorf("%d devices received payload, expected %d", devices, expected)
		}
		return 0, onlyVerbs(said)
	}
	n := j.payload(said)
	if n <= 0 {
		return 0, errors.New("it did not say how many bytes the ranks sent each other")
	}
	if share = float64(carried) / float64(n); share < leastShare {
		return share, fmt.Errorf("%.2f%% of %d bytes of payload went through devices, expected at least %.0f%%", 100*share, n, 100*leastShare)
	}
	return share, nil
}

var endpointLanes = regexp.MustCompile(`ep_cfg\[\d+\]: *(.*)`)

// onlyVerbs reads which transports UCX logs for its endpoints with UCX_LOG_LEVEL=info, as in
// ep_cfg[1]: rma(rc_verbs/rxe0:1) amo_am(rc_verbs/rxe0:1). All of them must be those of verbs, except
// the one by which a rank sends to itself.
func onlyVerbs(said string) error {
	verbs := false
	for _, m := range endpointLanes.FindAllStringSubmatch(said, -1) {
		for _, lane := range strings.FieldsFunc(m[1], func(r rune) bool { return strings.ContainsRune("() ", r) }) {
			switch transport, _, is := strings.Cut(lane, "/"); {
			case !is || transport == "self": // a word without a device is a lane's purpose
			case transport == "rc_verbs" || transport == "ud_verbs":
				verbs = true
			default:
				return fmt.Errorf("UCX uses %s: %s", lane, m[0])
			}
		}
	}
	if !verbs {
		return errors.New("UCX did not say that an endpoint uses verbs")
	}
	return nil
}

var (
	mpiSuiteCase   = regexp.MustCompile(`(?m)^\S+ tests .+, comm .+, type `)
	mpiSuiteFailed = regexp.MustCompile(`Number of failed tests: (\d+)`)
)

// judgeMPISuite reads what mpi-test-suite reports with -r run: its cases, and how many have failed.
func judgeMPISuite(said string) error {
	m := mpiSuiteFailed.FindStringSubmatch(said)
	switch {
	case m == nil:
		return errors.New("the suite did not say how many of its tests failed")
	case number(m[1]) != 0:
		return fmt.Errorf("%s of its tests failed", m[1])
	case !mpiSuiteCase.MatchString(said):
		return errors.New("the suite ran no test")
	}
	return nil
}

// judgeSHMEM reads what a program of tests-uh says of its checks.
func judgeSHMEM(said string) error {
	for line := range strings.Lines(said) {
		if strings.Contains(strings.ToLower(line), "failed") {
			return errors.New(strings.TrimSpace(line))
		}
	}
	if !strings.Contains(said, "Passed") {
		return errors.New("it did not say that a check passed")
	}
	return nil
}

var (
	hpccResiduals = regexp.MustCompile(`(\d+) tests completed and (passed|failed) residual checks`)
	hpccErrors    = regexp.MustCompile(`Found (\d+) errors in|Node\(s\) with error (\d+)|MPIRandomAccess(?:_LCG)?_Errors=(\d+)`)
	hpccFFT       = regexp.MustCompile(`(?m)^MPIFFT_maxErr=(\S+)$`)
)

const (
	// hpccSections is the number of hpcc's sections with residuals: PTRANS and HPL.
	hpccSections = 2

	// hpccCounts is the number of counts of errors: of both kinds of RandomAccess, of what ran on
	// each rank, and of the summary.
	hpccCounts = 14

	// hpccFFTError bounds the error of the FFT: 16, hpcc's threshold, by the precision and by the
	// logarithm of at most 2^20 points.
	hpccFFTError = 16 * 20 / float64(1<<53)
)

// judgeHPCC reads the checks in hpcc's report.
func judgeHPCC(said string) error {
	passed := 0
	for _, m := range hpccResiduals.FindAllStringSubmatch(said, -1) {
		switch n := number(m[1]); {
		case m[2] == "failed" && n > 0:
			return fmt.Errorf("%d residual checks failed", n)
		case m[2] == "passed" && n > 0:
			passed++
		}
	}
	if passed != hpccSections {
		return fmt.Errorf("residual checks passed in %d sections, expected PTRANS and HPL", passed)
	}
	counts := hpccErrors.FindAllStringSubmatch(said, -1)
	for _, m := range counts {
		if m[1]+m[2]+m[3] != "0" {
			return errors.New(m[0])
		}
	}
	if len(counts) < hpccCounts {
		return fmt.Errorf("%d counts of errors in the report, expected %d", len(counts), hpccCounts)
	}
	m := hpccFFT.FindStringSubmatch(said)
	if m == nil {
		return errors.New("no MPIFFT_maxErr in the report")
	}
	if e, err := strconv.ParseFloat(m[1], 64); err != nil || !(e >= 0 && e <= hpccFFTError) {
		return fmt.Errorf("MPIFFT_maxErr=%s, expected at most %g", m[1], hpccFFTError)
	}
	if !strings.Contains(said, "\nSuccess=1\n") {
		return errors.New("no Success=1 in the report")
	}
	return nil
}
