package fabric

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/sm"
)

// A collector shows the ports of a fabric that have a cable as metrics.
type collector struct {
	do     func(func(now time.Duration, s *subnet.Subnet, m *sm.Manager)) bool
	active *prometheus.Desc
	counts []portCount
}

// A portCount is a metric that counts at a port.
type portCount struct {
	desc  *prometheus.Desc
	value func(*control.LinkEnd) float64
}

// newCollector returns a collector of the fabric of a name, with what calls a function in the goroutine
// that owns the subnet.
func newCollector(name string, do func(func(now time.Duration, s *subnet.Subnet, m *sm.Manager)) bool) prometheus.Collector {
	describe := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc("softrdma_fabric_"+metric, help, []string{"node", "port"}, prometheus.Labels{"fabric": name})
	}
	return &collector{do, describe("port_active", "Whether the link of the port is active."), []portCount{
		{describe("port_transmitted_bytes_total", "Bytes of packets that the port has sent."), func(e *control.LinkEnd) float64 { return float64(e.Bytes) }},
		{describe("port_transmitted_packets_total", "Packets that the port has sent."), func(e *control.LinkEnd) float64 { return float64(e.Packets) }},
		{describe("port_wait_seconds_total", "Time in which a packet of the port waited for credit."), func(e *control.LinkEnd) float64 { return e.Wait.Seconds() }},
		{describe("port_receive_errors_total", "Bad packets that came in."), func(e *control.LinkEnd) float64 { return float64(e.Errors) }},
		{describe("port_transmit_discards_total", "Packets that could not leave."), func(e *control.LinkEnd) float64 { return float64(e.Discards) }},
		{describe("port_link_downed_total", "How often the link of the port went down."), func(e *control.LinkEnd) float64 { return float64(e.Downed) }},
	}}
}

// Describe implements prometheus.Collector.
func (x *collector) Describe(c chan<- *prometheus.Desc) {
	c <- x.active
	for _, k := range x.counts {
		c <- k.desc
	}
}

// Collect implements prometheus.Collector.
func (x *collector) Collect(c chan<- prometheus.Metric) {
	var r control.Reply
	x.do(func(now time.Duration, s *subnet.Subnet, m *sm.Manager) {
		r, _ = control.Do(now, s, m, control.Request{Verb: control.VerbLinks}) // all links: nothing to refuse
	})
	for i := range r.Links {
		l, active := &r.Links[i], 0.0
		if l.State == control.LinkActive {
			active = 1
		}
		for j := range l.Ends {
			e := &l.Ends[j]
			if e.Port == 0 {
				continue // the far end of a trunk
			}
			port := strconv.Itoa(e.Port)
			c <- prometheus.MustNewConstMetric(x.active, prometheus.GaugeValue, active, e.Node, port)
			for _, k := range x.counts {
				c <- prometheus.MustNewConstMetric(k.desc, prometheus.CounterValue, k.value(e), e.Node, port)
			}
		}
	}
}
