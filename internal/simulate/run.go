// Package simulate runs scenarios: the reliable connections of softrdma (package hosts) with the
// traffic of a scenario, on a network of Ethernet switches on virtual time.
//
//	scenario file -> scenario.Parse -> Run, for each variant and seed -> Runs -> Summarize
//
// A run belongs to one goroutine, which may have workers help; different runs share nothing, so they may
// run at the same time. The same scenario and seed give the same result. The package does no I/O and reads no clock.
package simulate

import (
	"fmt"
	"sync"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/station"
	"softrdma/internal/reason"
	"softrdma/internal/simulate/hosts"
	"softrdma/internal/simulate/scenario"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A run is a scenario that is being simulated.
type run struct {
	s       *scenario.Scenario
	v       *scenario.Variant
	h       *hosts.Hosts
	sender  hosts.Sender // without its priority
	used    []uint8      // priorities of the traffic
	paths   *paths
	sources []source // by timer
	streams []*stream
	sampled dcb.Time
	result  *Result

	mutex  sync.Mutex // of what follows, for the callbacks from hosts
	busy   int        // messages that have not arrived, and sources that have more
	last   dcb.Time   // when busy became less
	broken []*group   // that are to be closed
}

// Run simulates one variant of a scenario on a number of workers, which changes nothing in the result.
// It asks stop now and then whether to end early; stop may be nil.
func Run(s *scenario.Scenario, v *scenario.Variant, seed uint64, workers int, stop func() bool) (*Result, error) {
	return simulate(s, v, seed, workers, lan.DefaultGrain, stop)
}

// simulate is Run with a lan.Config.Grain.
func simulate(s *scenario.Scenario, v *scenario.Variant, seed uint64, workers, grain int, stop func() bool) (*Result, error) {
	r, err := newRun(s, v, seed, workers, grain)
	if err != nil {
		return nil, err
	}
	net := r.h.Network()
	for r.busy > 0 && net.Now() < s.Limit.Time() {
		step := s.Sample
		if net.Now() >= s.Duration.Time() { // the rest is messages that are late
			step = max(step, (s.Limit-s.Duration)/lateSamples)
		}
		until := min(net.Now()+step.Time(), s.Limit.Time())
		for done := false; !done; done = r.h.RunSome(until, stopEvents) {
			if stop != nil && stop() {
				return nil, fmt.Errorf("stopped at %v", net.Now().Duration())
			}
		}
		r.sample(net.Now())
	}
	if r.busy > 0 {
		r.last = net.Now()
	}
	r.finish(r.last)
	return r.result, nil
}

// newRun makes the network of a run, and its traffic.
func newRun(s *scenario.Scenario, v *scenario.Variant, seed uint64, workers, grain int) (*run, error) {
	fabric, err := s.Fabric()
	if err != nil {
		return nil, err
	}
	r := &run{s: s, v: v, result: &Result{Seed: seed}, sender: sender(&v.Sender)}
	for i := range uint8(ethernet.Priorities) {
		if s.Priorities()&(1<<i) != 0 {
			r.used = append(r.used, i)
		}
	}
	c := config(v, fabric, s.Priorities())
	c.Seed, c.Parts, c.Workers, c.Grain = seed^uint64(v.Switch.Hash)<<32, parts(fabric), workers, grain
	if r.h, err = hosts.New(hosts.Config{Network: c, Handler: r}); err != nil {
		return nil, err
	}
	r.paths = newPaths(r.h.Network(), v)
	if v.Sender.DCQCN.Preset == scenario.Published {
		r.sender.Tuning.Line = r.line()
	}
	for i := range s.Traffic {
		if err := r.add(i, &s.Traffic[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// stopEvents is the number of events between two questions to stop: some hundredths of a second.
const stopEvents = 1 << 16

// lateSamples is the number of samples between Duration and Limit.
const lateSamples = 200

// sender returns the settings of connections.
func sender(s *scenario.Sender) hosts.Sender {
	x := hosts.Sender{Control: s.Control.Kind, GoBackN: s.Recovery == scenario.GoBackN, Window: int(s.Window), MTU: s.MTU, Tuning: s.Tuning()}
	if s.Timeout > 0 {
		for x.Timeout = 1; x.Timeout < maxTimeout && 4096*time.Nanosecond<<x.Timeout < time.Duration(s.Timeout); x.Timeout++ {
		}
	}
	return x
}

// maxTimeout is the largest exponent of a timeout (IBTA 9.7.6.1.3).
const maxTimeout = 31

// parts returns the number of parts into which a network is divided.
func parts(f *topology.Fabric) int {
	return min(maxParts, scenario.Hosts(f)/partHosts)
}

// Parts have partHosts hosts at least. There are more of them than processors, so that all of these have
// something to do for about the same time, and their events stay in a processor's caches.
const (
	partHosts = 16
	maxParts  = 32
)

// config returns the network of a variant, for traffic of some priorities.
func config(v *scenario.Variant, f *topology.Fabric, priorities uint8) lan.Config {
	l, w := &v.Links, &v.Switch
	c := lan.Config{Fabric: f, Host: station.Config{Queue: 1}}
	c.Link = lan.Link{Cable: l.Cable.Time(), Port: dcb.PortConfig{Speed: speed(l.Speed), MTU: frameLimit(&v.Sender)}}
	if w.PFC {
		c.Link.Port.Pause, c.Link.Port.Lossless = dcb.ByClass, priorities
		c.Link.Port.Watchdog = dcb.Watchdog{Detect: w.Watchdog.Detect.Time(), Restore: w.Watchdog.Restore.Time(), Forward: w.Watchdog.Forward}
		c.Link.Headroom = int(w.Headroom)
	}
	c.Each = func(e topology.End, k *lan.Link) {
		if f.Nodes[e.Node].Kind != topology.Switch {
			k.Port.Watchdog = dcb.Watchdog{}
		}
		if h := l.Hosts; hostLink(f, e) {
			if h.Speed != 0 {
				k.Port.Speed = dcb.Speed(h.Speed)
			}
			if h.Cable != 0 {
				k.Cable = h.Cable.Time()
			}
		}
	}
	c.Switch = bridge.Config{Hop: w.Hop.Time(), StoreAndForward: w.Mode == scenario.StoreAndForward, Buffer: bridge.BufferConfig{Size: int(w.Buffer)}}
	c.Switch.Telemetry = v.Sender.Control.Kind == congestion.HPCC
	for i := range c.Switch.Marking {
		if priorities&(1<<i) != 0 {
			c.Switch.Marking[i] = bridge.Marking{Min: int(w.Mark.Min), Max: int(w.Mark.Max), Most: w.Mark.Most}
		}
	}
	switch w.Balance {
	case scenario.ByFlowlet:
		c.Switch.Balance = bridge.ByFlowlet
	case scenario.ByPacket:
		c.Switch.Balance = bridge.Spray
	}
	return c
}

// hostLink reports whether one end of a cable is a host.
func hostLink(f *topology.Fabric, e topology.End) bool {
	n := &f.Nodes[e.Node]
	return n.Kind != topology.Switch || f.Nodes[n.Ports[e.Port].Peer.Node].Kind != topology.Switch
}

func speed(r scenario.Rate) dcb.Speed {
	if r == 0 {
		return 100 * dcb.Gbit
	}
	return dcb.Speed(r)
}

// frameLimit returns the longest frame of a sender.
func frameLimit(s *scenario.Sender) int {
	mtu := s.MTU
	if mtu == 0 {
		mtu = hosts.DefaultMTU
	}
	return max(dcb.DefaultMTU, hosts.FrameLen(ib.RCWriteOnlyImm, mtu))
}

// connect connects two nodes for a traffic.
func (r *run) connect(now dcb.Time, traffic, from, to, depth int) *hosts.Conn {
	s := r.sender
	s.Priority = r.s.Traffic[traffic].Priority
	return r.h.Connect(now, from, to, depth, &s)
}

// line returns the rate of the hosts' links in bytes per second: it is the same for all hosts.
func (r *run) line() float64 {
	c := r.paths.link(r.paths.gateway(r.node(0)))
	return float64(dcb.Second) / float64(c.perByte)
}

// node returns the node of a host.
func (r *run) node(host int) int { return r.h.Nodes()[host] }

// Alarm implements hosts.Handler.
func (r *run) Alarm(now dcb.Time, timer int) {
	if next := r.sources[timer].next(now); next != dcb.Never {
		r.h.SetTimer(timer, next)
		return
	}
	r.ends(now)
}

// ends notes that a source or a message has ended.
func (r *run) ends(now dcb.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.busy, r.last = r.busy-1, max(r.last, now)
}

// Sent implements hosts.Handler.
func (r *run) Sent(now dcb.Time, c *hosts.Conn, id uint64) { c.User.(user).sent(now, c, id) }

// Received implements hosts.Handler.
func (r *run) Received(now dcb.Time, c *hosts.Conn, id uint32) { c.User.(user).received(now, id) }

// Failed implements hosts.Handler.
func (r *run) Failed(now dcb.Time, c *hosts.Conn, d reason.Detail) {
	r.mutex.Lock()
	r.result.Failed++
	r.mutex.Unlock()
	c.User.(user).failed(now, c, d)
}

// A user is what uses a connection.
type user interface {
	sent(now dcb.Time, c *hosts.Conn, id uint64)
	received(now dcb.Time, id uint32)
	failed(now dcb.Time, c *hosts.Conn, d reason.Detail)
}
