//go:build linux

package uverbs

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/rdmanl"
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

// portCounters are those of the standard (IBTA 16.1.3.5) that a device counts by reasons. The
// others of portConstants stay 0: there is no physical layer below the device that counts them.
var portCounters = map[string][]reason.Reason{
	"port_rcv_errors": {
		reason.PacketShort, reason.PacketOpcode, reason.PacketVersion, reason.PacketPad,
		reason.PacketExtraPayload, reason.PacketICRC, reason.PacketGRH, reason.PacketGRHLength,
	},
	"port_rcv_constraint_errors": {reason.PacketPKey},
	"port_xmit_discards":         hwCounters["send_err"],
}

var portConstants = []string{
	"VL15_dropped", "excessive_buffer_overrun_errors", "link_error_recovery",
	"local_link_integrity_errors", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
	"port_xmit_constraint_errors", "port_xmit_wait", "symbol_error",
}

// wordBytes is the unit of the standard's counters of data.
const wordBytes = 4

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

// count returns what a device and the programs that have a share of its address have counted.
func (s *Server) count(d *device.Device) counts {
	c := s.slots.counted(d)
	c.traffic.Add(d.Adapter.Traffic())
	for r := range c.reasons {
		c.reasons[r] += d.Adapter.Trace.Counter(reason.Reason(r))
	}
	return c
}

// of returns how often reasons were counted.
func (c *counts) of(list []reason.Reason) (sum uint64) {
	for _, r := range list {
		sum += c.reasons[r]
	}
	return sum
}

// statistics returns the counters of rxe by name.
func (c *counts) statistics() []rdmanl.Statistic {
	list := []rdmanl.Statistic{
		{Name: "sent_pkts", Value: c.traffic.SentPackets}, {Name: "rcvd_pkts", Value: c.traffic.ReceivedPackets},
		{Name: "rdma_sends", Value: c.traffic.Sends}, {Name: "rdma_recvs", Value: c.traffic.Receives},
	}
	for name, of := range hwCounters {
		list = append(list, rdmanl.Statistic{Name: name, Value: c.of(of)})
	}
	slices.SortFunc(list, func(a, b rdmanl.Statistic) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// addCounters adds the counters of a device: its own, and those of the programs that have a
// share of its address. Data is payload, as the programs count it, in words.
func (s *Server) addCounters(d *device.Device, files map[string]string) {
	port := "sys/class/infiniband/" + d.Name + "/ports/1/"
	put := func(dir, name string, n uint64) { files[port+dir+name] = strconv.FormatUint(n, 10) }
	c, lost := s.count(d), uint64(s.links.look(d))
	put("hw_counters/", "lifespan", uint64(counterLife.Milliseconds()))
	put("hw_counters/", "link_downed", lost)
	for _, x := range c.statistics() {
		put("hw_counters/", x.Name, x.Value)
	}
	put("counters/", "link_downed", lost)
	put("counters/", "port_xmit_data", c.traffic.Sent/wordBytes)
	put("counters/", "port_rcv_data", c.traffic.Received/wordBytes)
	put("counters/", "port_xmit_packets", c.traffic.SentPackets)
	put("counters/", "port_rcv_packets", c.traffic.ReceivedPackets)
	for name, of := range portCounters {
		put("counters/", name, c.of(of))
	}
	for _, name := range portConstants {
		put("counters/", name, 0)
	}
}

// portCounters returns the counters of a device's port as performance management has them.
func (s *Server) portCounters(d *device.Device) hardware.Counters {
	s.tree.mu.Lock()
	lost := s.links.look(d)
	s.tree.mu.Unlock()
	c := s.count(d)
	return hardware.Counters{
		XmitData: c.traffic.Sent / wordBytes, RcvData: c.traffic.Received / wordBytes,
		XmitPackets: c.traffic.SentPackets, RcvPackets: c.traffic.ReceivedPackets, LinkDowned: uint64(lost),
		RcvErrors: c.of(portCounters["port_rcv_errors"]), RcvConstraintErrors: c.of(portCounters["port_rcv_constraint_errors"]),
		XmitDiscards: c.of(portCounters["port_xmit_discards"]),
	}
}
