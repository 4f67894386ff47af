//go:build linux

package uverbs

import (
	"slices"
	"strconv"
	"strings"
	"sync"
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

// badPackets are the reasons that count as errors of received packets (PortRcvErrors, IBTA 16.1.3.5).
var badPackets = []reason.Reason{
	reason.PacketShort, reason.PacketOpcode, reason.PacketVersion, reason.PacketPad,
	reason.PacketExtraPayload, reason.PacketICRC, reason.PacketGRH, reason.PacketGRHLength,
}

// portCounters are the standard's counters by the names of their files.
var portCounters = map[string]func(k *hardware.Counters) uint64{
	"VL15_dropped":                    func(k *hardware.Counters) uint64 { return k.VL15Dropped },
	"excessive_buffer_overrun_errors": func(k *hardware.Counters) uint64 { return k.ExcessiveBufferOverruns },
	"link_downed":                     func(k *hardware.Counters) uint64 { return k.LinkDowned },
	"link_error_recovery":             func(k *hardware.Counters) uint64 { return k.LinkErrorRecovery },
	"local_link_integrity_errors":     func(k *hardware.Counters) uint64 { return k.LocalLinkIntegrityErrors },
	"port_rcv_constraint_errors":      func(k *hardware.Counters) uint64 { return k.RcvConstraintErrors },
	"port_rcv_data":                   func(k *hardware.Counters) uint64 { return k.RcvData },
	"port_rcv_errors":                 func(k *hardware.Counters) uint64 { return k.RcvErrors },
	"port_rcv_packets":                func(k *hardware.Counters) uint64 { return k.RcvPackets },
	"port_rcv_remote_physical_errors": func(k *hardware.Counters) uint64 { return k.RcvRemotePhysicalErrors },
	"port_rcv_switch_relay_errors":    func(k *hardware.Counters) uint64 { return k.RcvSwitchRelayErrors },
	"port_xmit_constraint_errors":     func(k *hardware.Counters) uint64 { return k.XmitConstraintErrors },
	"port_xmit_data":                  func(k *hardware.Counters) uint64 { return k.XmitData },
	"port_xmit_discards":              func(k *hardware.Counters) uint64 { return k.XmitDiscards },
	"port_xmit_packets":               func(k *hardware.Counters) uint64 { return k.XmitPackets },
	"port_xmit_wait":                  func(k *hardware.Counters) uint64 { return k.XmitWait },
	"symbol_error":                    func(k *hardware.Counters) uint64 { return k.SymbolErrors },
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

// links counts how often the links of devices went down.
type links struct {
	mu   sync.Mutex
	down map[*device.Device]bool
	lost map[*device.Device]int
}

// look notes the state of a device's link, and returns how often it went down.
func (l *links) look(d *device.Device) int {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// port returns the counters of the port as performance management has them (IBTA 16.1.3.5). Data is
// payload, as the programs count it, in words. Those of a physical layer stay 0: there is none.
func (c *counts) port(lost int) *hardware.Counters {
	return &hardware.Counters{
		XmitData: c.traffic.Sent / wordBytes, RcvData: c.traffic.Received / wordBytes,
		XmitPackets: c.traffic.SentPackets, RcvPackets: c.traffic.ReceivedPackets, LinkDowned: uint64(lost),
		RcvErrors: c.of(badPackets), RcvConstraintErrors: c.reasons[reason.PacketPKey], XmitDiscards: c.of(hwCounters["send_err"]),
	}
}

// portCounters returns the counters of a device's port.
func (s *Server) portCounters(d *device.Device) *hardware.Counters {
	c := s.count(d)
	return c.port(s.links.look(d))
}

// addCounters adds the counters of a device: its own, and those of the programs that have a
// share of its address.
func (s *Server) addCounters(d *device.Device, files map[string]string) {
	port := "sys/class/infiniband/" + d.Name + "/ports/1/"
	put := func(dir, name string, n uint64) { files[port+dir+name] = strconv.FormatUint(n, 10) }
	c := s.count(d)
	k := c.port(s.links.look(d))
	put("hw_counters/", "lifespan", uint64(counterLife.Milliseconds()))
	put("hw_counters/", "link_downed", k.LinkDowned)
	for _, x := range c.statistics() {
		put("hw_counters/", x.Name, x.Value)
	}
	for name, of := range portCounters {
		put("counters/", name, of(k))
	}
}
