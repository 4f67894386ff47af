package agent

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/perf"
)

// A PortAgent answers performance management for the port of a device without other agents, such as a
// RoCE device. One goroutine at a time may use it.
type PortAgent struct {
	performance performance
	node        countingNode
}

// A countingNode is an adapter of which only the counters of its port are known.
type countingNode struct {
	hardware.Node
	counters hardware.Counters
}

// Counters implements hardware.Node.
func (n *countingNode) Counters(int) *hardware.Counters { return &n.counters }

// NewPortAgent returns an agent whose counters were never cleared.
func NewPortAgent() *PortAgent {
	a := new(PortAgent)
	a.performance.settings = &settings{config: Config{NumPorts: 1}, node: &a.node}
	a.performance.counters = make([]baseline, 2) // port 0 is not used
	return a
}

// Answer replaces a request of performance management by its response, and reports whether it was one.
// counters are what the port has counted.
func (a *PortAgent) Answer(now time.Duration, counters *hardware.Counters, data *[mad.Len]byte) bool {
	var h mad.Header
	if h.Parse(data); h.Class != mad.ClassPerformance || h.Method&mad.ResponseBit != 0 {
		return false
	}
	a.node.counters = *counters
	h.Status = a.performance.count(now, &h, (*[perf.DataLen]byte)(data[perf.DataAt:]))
	h.Method = mad.MethodGetResponse
	h.Put(data)
	return true
}
