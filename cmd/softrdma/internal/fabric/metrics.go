package fabric

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/internal/fabric/control"
)

// A collector shows the ports of a fabric that have a cable as metrics.
type collector struct {
	ask    func(question []byte) (answer []byte, err error)
	active *prometheus.Desc
	ports  []count[control.LinkEnd]
	queues []count[control.Priority]
}

// A count is a metric of a port, or of a priority of a port.
type count[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
}

// newCollector returns a collector of the fabric of a name, which answers questions of package control.
func newCollector(name string, ethernet bool, ask func(question []byte) (answer []byte, err error)) prometheus.Collector {
	describe := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("softrdma_fabric_port_"+metric, help, append([]string{"node", "port"}, labels...), prometheus.Labels{"fabric": name})
	}
	counter := func(metric, help string, value func(*control.LinkEnd) float64) count[control.LinkEnd] {
		return count[control.LinkEnd]{describe(metric, help), prometheus.CounterValue, value}
	}
	x := &collector{ask: ask, active: describe("active", "Whether the link of the port is active."), ports: []count[control.LinkEnd]{
		counter("transmitted_bytes_total", "Bytes of packets that the port has sent.", func(e *control.LinkEnd) float64 { return float64(e.Bytes) }),
		counter("transmitted_packets_total", "Packets that the port has sent.", func(e *control.LinkEnd) float64 { return float64(e.Packets) }),
		counter("wait_seconds_total", "Time in which a packet of the port waited for credit, or a priority was paused.", func(e *control.LinkEnd) float64 { return e.Wait.Seconds() }),
		counter("receive_errors_total", "Bad packets that came in.", func(e *control.LinkEnd) float64 { return float64(e.Errors) }),
		counter("transmit_discards_total", "Packets that could not leave.", func(e *control.LinkEnd) float64 { return float64(e.Discards) }),
	}}
	if !ethernet {
		x.ports = append(x.ports, counter("link_downed_total", "How often the link of the port went down.", func(e *control.LinkEnd) float64 { return float64(e.Downed) }))
		return x
	}
	queue := func(kind prometheus.ValueType, metric, help string, value func(*control.Priority) float64) {
		x.queues = append(x.queues, count[control.Priority]{describe("priority_"+metric, help, "priority"), kind, value})
	}
	queue(prometheus.CounterValue, "transmitted_bytes_total", "Bytes of frames of the priority that the port has sent.", func(p *control.Priority) float64 { return float64(p.Bytes) })
	queue(prometheus.CounterValue, "pauses_sent_total", "Frames of the port that pause the priority at the neighbor.", func(p *control.Priority) float64 { return float64(p.PausesSent) })
	queue(prometheus.CounterValue, "pauses_received_total", "Frames that pause the priority or end its pause.", func(p *control.Priority) float64 { return float64(p.PausesReceived) })
	queue(prometheus.CounterValue, "paused_seconds_total", "Time in which the neighbor has paused the priority, in pauses that have ended.", func(p *control.Priority) float64 { return p.Paused.Seconds() })
	queue(prometheus.CounterValue, "marked_frames_total", "Frames that were marked with ECN.", func(p *control.Priority) float64 { return float64(p.Marked) })
	queue(prometheus.CounterValue, "dropped_frames_total", "Frames that were dropped.", func(p *control.Priority) float64 { return float64(p.Dropped) })
	queue(prometheus.CounterValue, "storms_total", "Storms of pauses that the watchdog has found.", func(p *control.Priority) float64 { return float64(p.Storms) })
	queue(prometheus.GaugeValue, "queue_bytes", "Bytes that wait for the link.", func(p *control.Priority) float64 { return float64(p.Queue) })
	return x
}

// Describe implements prometheus.Collector.
func (x *collector) Describe(c chan<- *prometheus.Desc) {
	c <- x.active
	for _, k := range x.ports {
		c <- k.desc
	}
	for _, k := range x.queues {
		c <- k.desc
	}
}

// Collect implements prometheus.Collector.
func (x *collector) Collect(c chan<- prometheus.Metric) {
	r, err := askFabric(x.ask, control.Request{Verb: control.VerbLinks}) // all links: nothing to refuse
	if err != nil {
		return // the fabric has ended
	}
	for i := range r.Links {
		l, active := &r.Links[i], 0.0
		if l.State == control.LinkActive {
			active = 1
		}
		for j := range l.Ends {
			if e := &l.Ends[j]; e.Port != 0 { // 0 is the far end of a trunk
				x.collect(c, e, active)
			}
		}
	}
}

func (x *collector) collect(c chan<- prometheus.Metric, e *control.LinkEnd, active float64) {
	port := strconv.Itoa(e.Port)
	c <- prometheus.MustNewConstMetric(x.active, prometheus.GaugeValue, active, e.Node, port)
	for _, k := range x.ports {
		c <- prometheus.MustNewConstMetric(k.desc, k.kind, k.value(e), e.Node, port)
	}
	for i := range e.Priorities {
		p := &e.Priorities[i]
		for _, k := range x.queues {
			c <- prometheus.MustNewConstMetric(k.desc, k.kind, k.value(p), e.Node, port, strconv.Itoa(p.Priority))
		}
	}
}
