package fault

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The verdict, the status and the hits of a run come from its exit code and its output.
func TestOutcomeIsJudgedByCodeAndOutput(t *testing.T) {
	for _, c := range []struct {
		code     int
		timedOut bool
		output   string
		want     verdict
		status   string
		hits     uint64
	}{
		{0, false, "ok\nsoftrdma: process 7: rxe0 FAULT_INJECTED 3\n", survived, "", 3},
		{1, false, "Failed status 12: wr_id 0 syndrom 0x81\nsoftrdma: rxe0 FAULT_INJECTED 2\n", failed, "IBV_WC_RETRY_EXC_ERR", 2},
		{139, false, "", crashed, "segmentation fault", 0},
		{134, false, "[vm:1:0:1] rc_verbs_iface.c:121  send completion with error: transport retry counter exceeded [qpn 0x65102]\nAborted\n", crashed, "IBV_WC_RETRY_EXC_ERR", 0},
		{255, false, "cq completion failed status 10\n", failed, "IBV_WC_REM_ACCESS_ERR", 0},
		{255, false, "cma event RDMA_CM_EVENT_REJECTED, error 28\nwait for CONNECTED state 4\n", failed, "RDMA_CM_EVENT_REJECTED", 0},
		{1, false, "Unexpected CM event bl blka 8\n", failed, "RDMA_CM_EVENT_REJECTED", 0},
		{1, false, "fio: event is RDMA_CM_EVENT_REJECTED instead of RDMA_CM_EVENT_ESTABLISHED\n", failed, "RDMA_CM_EVENT_REJECTED", 0},
		{1, false, "fio: cq completion status 5(Work Request Flushed Error)\nevent RDMA_CM_EVENT_REJECTED\n", failed, "IBV_WC_WR_FLUSH_ERR", 0},
		{143, true, "", hung, "", 0},
		{0, false, "data mismatch!\n", wrongBytes, "", 0},
		{1, false, "pyverbs.pyverbs_error.PyverbsError: Data validation failure: expected b'c', received b'd'\n", wrongBytes, "", 0},
		{1, false, "Atomic sender data validation failed: expected 1, received 2\n", wrongBytes, "", 0},
		{1, false, "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x9c in position 784: invalid start byte\n", wrongBytes, "", 0},
		{0, false, " 4096  5000  0.028736softrdma: process 7: rxe0 FAULT_INJECTED 5\n", survived, "", 5}, // ib_write_bw's last line has no end
		{1, false, "rank 1: a broadcast of 8 bytes brought wrong data\n", wrongBytes, "", 0},
	} {
		o := &outcome{Code: c.code, output: c.output}
		o.judge(c.timedOut, differs)
		if o.Verdict != c.want || o.Status != c.status || o.Hits != c.hits {
			t.Errorf("%q: found %s, %q, %d hits; expected %s, %q, %d", c.output, o.Verdict, o.Status, o.Hits, c.want, c.status, c.hits)
		}
	}
}

// Of a long output the first and the last lines are read.
func TestOutcomeReadsBothEndsOfALongOutput(t *testing.T) {
	for _, middle := range []int{0, 10, 5 * endsRead} {
		first, last := strings.Repeat("first ", endsRead/6), strings.Repeat(" last", endsRead/5)
		text := first + strings.Repeat("x", middle) + last
		found := excerpt(strings.NewReader(text), int64(len(text)))
		if !strings.HasPrefix(found, first) || !strings.HasSuffix(found, last) || len(found) > 2*endsRead+100 {
			t.Errorf("of %d bytes found %d, expected both ends", len(text), len(found))
		}
	}
}

// The table, the JSON and the JUnit XML say how much longer a program has taken than without faults.
func TestReportsShowHowMuchSlower(t *testing.T) {
	runs := []*outcome{
		{Scenario: noScenario, Verdict: survived, Seconds: 2, Slower: 1},
		{Scenario: "lossy-link", Verdict: survived, Seconds: 5, Slower: 2.5, Hits: 31},
		{Scenario: "wrong-key", Verdict: failed, Code: 1, Seconds: 1, Slower: .5, Status: "IBV_WC_REM_ACCESS_ERR", Line: "status 10", Hits: 1},
	}
	s := runOptions{junit: filepath.Join(t.TempDir(), "report.xml")}
	report := func() string {
		t.Helper()
		var out bytes.Buffer
		if err := s.report(&out, "./tests.sh", runs); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	table := report()
	s.asJSON = true
	inJSON := report()
	inXML, err := os.ReadFile(s.junit)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, text, want string }{
		{"table", table, "survived (2.0 s)"},
		{"table", table, "survived (2.5 times as long)"},
		{"JSON", inJSON, `"slower": 2.5`},
		{"JUnit XML", string(inXML), `<property name="slower" value="2.50"></property>`},
		{"JUnit XML", string(inXML), `<property name="status" value="IBV_WC_REM_ACCESS_ERR"></property>`},
		{"JUnit XML", string(inXML), "survived (2.5 times as long)"},
	} {
		if !strings.Contains(c.text, c.want) {
			t.Errorf("%s: expected %s, found %s", c.what, c.want, c.text)
		}
	}
}
