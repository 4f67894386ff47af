//go:build linux

package uverbs

import (
	"strconv"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/uverbs/device"
)

// counterLife is for how long programs may find counters that were read before, as in Linux.
const counterLife = 10 * time.Millisecond

// hwCounters are those of Linux's rxe that a device counts by reasons.
var hwCounters = map[string][]reason.Reason{
	"duplicate_request":      {reason.SequenceDuplicate, reason.SequenceDuplicateUnknown},
	"out_of_seq_request":     {reason.SequenceAhead, reason.SequenceHeld},
	"rcvd_rnr_err":           {reason.NAKNotReady, reason.RNRRetryExceeded},
	"send_rnr_err":           {reason.NoReceive},
	"rcvd_seq_err":           {reason.NAKSequence},
	"ack_deferred":           nil,
	"retry_exceeded_err":     {reason.RetryExceeded, reason.NeverAnswered},
	"retry_rnr_exceeded_err": {reason.RNRRetryExceeded},
	"completer_retry_err":    {reason.AckTimeout},
	"send_err":               {reason.SendFailed, reason.SendRefused, reason.SendUnreachable, reason.SendNeighbour},
}

// counts are what programs have counted on a device.
type counts struct {
	reasons [reason.Count]uint64
	traffic trace.Traffic
}

func (c *counts) add(p *trace.Page) {
	for r := range c.reasons {
		c.reasons[r] += p.Counters[r].Load()
	}
	c.traffic.Add(p.Traffic.Load())
}

// links counts how often the links of devices went down. The lock of the tree guards it.
type links struct {
	down map[*device.Device]bool
	lost map[*device.Device]int
}

// look notes the state of a device's link, and returns how often it went down.
func (l *links) look(d *device.Device) int {
	if l.down == nil {
		l.down, l.lost = make(map[*device.Device]bool), make(map[*device.Device]int)
	}
	down := !d.Verbs.QueryPort().Active
	if was, known := l.down[d]; known && down && !was {
		l.lost[d]++
	}
	l.down[d] = down
	return l.lost[d]
}

// addCounters adds the counters of a RoCE device: its own, and those of the programs that have a
// share of its address.
func (s *Server) addCounters(d *device.Device, files map[string]string) {
	if d.Fabric != nil || d.Adapter.IWARP() {
		return
	}
	dir := "sys/class/infiniband/" + d.Name + "/ports/1/hw_counters/"
	files[dir+"lifespan"] = strconv.FormatInt(counterLife.Milliseconds(), 10)
	files[dir+"link_downed"] = strconv.Itoa(s.links.look(d))
	c := s.slots.counted(d)
	c.traffic.Add(d.Adapter.Traffic())
	values := map[string]uint64{
		"sent_pkts": c.traffic.SentPackets, "rcvd_pkts": c.traffic.ReceivedPackets,
		"rdma_sends": c.traffic.Sends, "rdma_recvs": c.traffic.Receives,
	}
	for name, of := range hwCounters {
		values[name] = 0
		for _, r := range of {
			values[name] += d.Adapter.Trace.Counter(r) + c.reasons[r]
		}
	}
	for name, n := range values {
		files[dir+name] = strconv.FormatUint(n, 10)
	}
}
