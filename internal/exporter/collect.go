package exporter

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/internal/object"
	"softrdma/internal/reason"
)

const namespace = "softrdma_"

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+name, help, slices.Concat(deviceLabels, more), nil)
}

// The metrics of each device.
var (
	info     = describe("device_info", "A device, with the value 1.", "protocol", "guid")
	active   = describe("port_active", "Whether the port of the device is active.")
	speed    = describe("port_rate_bytes_per_second", "Rate of the port of the device, as far as the system knows it.")
	sent     = describe("transmitted_payload_bytes_total", "Payload in packets that were sent, including repeated packets.")
	received = describe("received_payload_bytes_total", "Payload in packets that were accepted, without duplicates.")
	sentPkts = describe("transmitted_packets_total", "Packets that were sent, including repeated ones.")
	gotPkts  = describe("received_packets_total", "Packets that reached a queue pair, including duplicates.")
	sends    = describe("completed_sends_total", "SEND requests that completed with success.")
	receives = describe("completed_receives_total", "Receive requests that completed with success.")
	refusals = describe("refusals_total", "Packets, requests and calls that were refused, by the reason that softrdma explain knows.", "reason")
	again    = describe("retransmissions_total", "Decisions to send packets again, by their cause.", "cause")
	notices  = describe("congestion_notifications_received_total", "Congestion notification packets (CNP) on which a queue pair acted.")
	marks    = describe("congestion_marks_received_total", "Packets that a router had marked for congestion, of which the peer was notified.")
	objects  = describe("objects", "Objects that exist now, by their kind.", "kind")
)

// Describe implements prometheus.Collector.
func (x *Exporter) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		info, active, speed, sent, received, sentPkts, gotPkts, sends, receives, refusals, again, notices, marks, objects,
	} {
		c <- d
	}
	x.samples.describe(c)
}

// Collect implements prometheus.Collector.
func (x *Exporter) Collect(c chan<- prometheus.Metric) {
	list := x.devices()
	atOnce(list, func(_ int, d *device) { d.collect(c) })
	x.samples.collect(x, list, c)
}

// atOnce calls f for all devices at once, and returns when all calls have: programs that do not answer delay
// only their own device.
func atOnce(list []*device, f func(i int, d *device)) {
	var calls sync.WaitGroup
	for i, d := range list {
		calls.Go(func() { f(i, d) })
	}
	calls.Wait()
}

// collect yields the metrics of one device.
func (d *device) collect(c chan<- prometheus.Metric) {
	yield := func(of *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
		c <- prometheus.MustNewConstMetric(of, kind, v, slices.Concat([]string{d.name, d.address}, more)...)
	}
	count := func(of *prometheus.Desc, n uint64, more ...string) {
		yield(of, prometheus.CounterValue, float64(n), more...)
	}
	port := d.verbs.QueryPort()
	yield(info, prometheus.GaugeValue, 1, d.verbs.Protocol().String(), d.verbs.Query().NodeGUID.String())
	yield(active, prometheus.GaugeValue, map[bool]float64{true: 1}[port.Active])
	if port.SpeedMbps > 0 {
		yield(speed, prometheus.GaugeValue, float64(port.SpeedMbps)*1e6/8)
	}
	t := d.entry.Adapter.Traffic()
	t.Add(d.programs.Traffic)
	count(sent, t.Sent)
	count(received, t.Received)
	count(sentPkts, t.SentPackets)
	count(gotPkts, t.ReceivedPackets)
	count(sends, t.Sends)
	count(receives, t.Receives)
	all := d.refused()
	for r, n := range all {
		count(refusals, n, r.String())
	}
	for cause, of := range reason.Retransmissions {
		var n uint64
		for _, r := range of {
			n += all[r]
		}
		count(again, n, cause)
	}
	count(notices, all[reason.CongestionNotified])
	count(marks, all[reason.CongestionMarked])
	n := object.Counts(d.verbs.Counts())
	if d.programs.Objects != nil {
		n.Add(d.programs.Objects())
	}
	for kind, n := range map[string]int{
		"protection_domain": n.PD, "completion_queue": n.CQ, "queue_pair": n.QP, "shared_receive_queue": n.SRQ, "memory_region": n.MR,
		"memory_window": n.MW, "address_handle": n.AH, "completion_channel": n.Channel,
	} {
		yield(objects, prometheus.GaugeValue, float64(n), kind)
	}
}

// refused returns the refusals of the device and of the programs that share its address.
func (d *device) refused() map[reason.Reason]uint64 {
	all := maps.Clone(d.programs.Reasons)
	if all == nil {
		all = make(map[reason.Reason]uint64)
	}
	for r, n := range d.entry.Adapter.Trace.Counters(0) {
		all[r] += n
	}
	return all
}
