package fault

import "testing"

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
		{255, false, "cq completion failed status 10\n", failed, "IBV_WC_REM_ACCESS_ERR", 0},
		{143, true, "", hung, "", 0},
		{0, false, "data mismatch!\n", wrongBytes, "", 0},
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
