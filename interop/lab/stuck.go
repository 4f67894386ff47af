//go:build interop && linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Linux's requester has a fault that shows on a busy machine, also between rxe and rxe. It retransmits a message after
// a timeout, and two acknowledges of the message's last PSN arrive before the retransmission has ended. The first moves
// the completer behind the message. The second completes the message although the requester is still sending it
// (rxe_comp.c: check_psn leads to COMPST_COMP_ACK without checking the state of the request). If the program then posts
// the next request into the last free slot of its send queue, the producer's index equals the requester's. The requester
// finds the queue empty and sends nothing any more, and the retransmission timer ignores a request that was not begun.
// ibv_rc_pingpong has room for one request, so every retransmission may lead to this.

// Counters are those of Linux's Soft RoCE, by their names in sysfs.
type Counters map[string]int64

// Counters reads the counters of rxe0.
func (g *Guest) Counters(ctx context.Context) (Counters, error) {
	r, err := g.Run(ctx, "sh", "-c", "cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *")
	if err != nil {
		return nil, err
	}
	return parseCounters(r.Stdout), nil
}

// parseCounters reads lines of NAME:NUMBER.
func parseCounters(text string) Counters {
	c := make(Counters)
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			c[name] = n
		}
	}
	return c
}

// since returns what was counted since an earlier reading.
func (c Counters) since(before Counters) Counters {
	d := make(Counters)
	for name, n := range c {
		d[name] = n - before[name]
	}
	return d
}

// StuckError reports that, by its own counters, Linux's Soft RoCE stopped sending although it waits for nothing.
type StuckError struct{ Why string }

func (e *StuckError) Error() string { return "Linux's requester is stuck: " + e.Why }

// StuckClient reports whether rxe is stuck as the client of an RC pingpong with n exchanges, and stuckServer whether it is
// as the server. Now and later are two readings of its counters, both after softrdma gave up. Each end sends only after it
// has received the message before, so the numbers of completed messages show whose turn it is. A requester retransmits what
// is not acknowledged. One that neither sends nor retransmits in its own turn is stuck.
func StuckClient(before, now, later Counters, n int64) *StuckError {
	d := now.since(before)
	return stuck(d, later.since(now), d["rdma_sends"] == d["rdma_recvs"] && d["rdma_sends"] < n)
}

func StuckServer(before, now, later Counters, n int64) *StuckError {
	d := now.since(before)
	return stuck(d, later.since(now), d["rdma_recvs"] == d["rdma_sends"]+1 && d["rdma_recvs"] <= n)
}

// stuck compares the counters of a run and of the time after it. Without a retransmission in the run it is another fault.
func stuck(run, after Counters, itsTurn bool) *StuckError {
	if !itsTurn || run["completer_retry_err"] == 0 || after["sent_pkts"] != 0 || after["completer_retry_err"] != 0 {
		return nil
	}
	return &StuckError{fmt.Sprintf("%d sends and %d receives completed, %d repetitions, %d packets sent, and none since",
		run["rdma_sends"], run["rdma_recvs"], run["completer_retry_err"], run["sent_pkts"])}
}

// restTime is the time between two readings of the counters of an idle requester. Its timeout is 67 ms.
const restTime = 3 * time.Second

// CheckStuck reads the counters of a guest twice, and judges by one of the functions above.
func (g *Guest) CheckStuck(ctx context.Context, before Counters, n int, judge func(before, now, later Counters, n int64) *StuckError) error {
	now, err := g.Counters(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	later, err := g.Counters(ctx)
	if err != nil {
		return err
	}
	if e := judge(before, now, later, int64(n)); e != nil {
		return e
	}
	return errors.New("Linux's counters of the run: " + fmt.Sprint(later.since(before)))
}
