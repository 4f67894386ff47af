//go:build interop && linux

package lab

import (
	"maps"
	"testing"
)

// The counters of runs that were seen, and of faults that would be ours.
func TestStuckPeerIsDistinguishedFromOurFaults(t *testing.T) {
	before := parseCounters("completer_retry_err:104\nrcvd_pkts:67731\nrdma_recvs:1004\nrdma_sends:1004\nsent_pkts:73643\nlink_downed:x\n")
	if len(before) != 5 {
		t.Fatalf("read %v", before)
	}
	after := func(sends, recvs, retries, sent int64) Counters {
		c := maps.Clone(before)
		c["rdma_sends"] += sends
		c["rdma_recvs"] += recvs
		c["completer_retry_err"] += retries
		c["sent_pkts"] += sent
		return c
	}
	for name, c := range map[string]struct {
		now, later     Counters
		client, server bool
	}{
		"seen: 4 messages each way, 2 repetitions, then nothing":    {after(4, 4, 2, 520), after(4, 4, 2, 520), true, false},
		"the server's answer is posted and not sent":                {after(4, 5, 1, 600), after(4, 5, 1, 600), false, true},
		"repeats what nobody acknowledges":                          {after(4, 4, 2, 520), after(4, 4, 9, 900), false, false},
		"waits for the other's message":                             {after(5, 4, 1, 520), after(5, 4, 1, 520), false, false},
		"an acknowledge and a message are missing":                  {after(4, 5, 0, 520), after(4, 5, 0, 520), false, false},
		"rests without a repetition: the fault is another one":      {after(4, 4, 0, 520), after(4, 4, 0, 520), false, false},
		"all was exchanged":                                         {after(31, 31, 1, 3000), after(31, 31, 1, 3000), false, false},
		"goes on after all":                                         {after(4, 4, 2, 520), after(6, 6, 2, 700), false, false},
		"acknowledges what comes, and so is waiting for no message": {after(4, 4, 2, 520), after(4, 4, 2, 530), false, false},
	} {
		for role, x := range map[string]struct {
			judge func(before, now, later Counters, n int64) *StuckError
			want  bool
		}{"client": {StuckClient, c.client}, "server": {StuckServer, c.server}} {
			if e := x.judge(before, c.now, c.later, 31); (e != nil) != x.want {
				t.Errorf("%s, as the %s: found %v, expected stuck: %v", name, role, e, x.want)
			}
		}
	}
}
