package agent

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/perf"
)

// sampleTick is the tick of samples: 4 ns, as that of XmitWait.
const sampleTick = 4 * time.Nanosecond

// A sample counts at a port for an interval (IBTA 16.1.3.2). A node has one at a time.
type sample struct {
	control perf.SamplesControl
	at      time.Duration // when it starts or ends
	before  [perf.SampleCounters]uint64
	result  [perf.SampleCounters]uint32
}

// samplesControl answers a Get or Set of PortSamplesControl, and returns the status of the
// response. A Set during a sample changes nothing.
func (p *performance) samplesControl(now time.Duration, h *mad.Header, data *[perf.DataLen]byte) uint16 {
	var c perf.SamplesControl
	c.Parse(data)
	if !p.valid(int(c.Port)) || h.Modifier != 0 {
		return mad.StatusInvalid
	}
	p.expireSample(now)
	s := &p.sample
	if h.Method == mad.MethodSet && s.control.Status == perf.SampleDone {
		for _, q := range c.Select {
			if q > perf.SampleXmitWait {
				return mad.StatusInvalid
			}
		}
		c.Status = perf.SampleStarted
		*s = sample{control: c, at: now + time.Duration(c.Start)*sampleTick}
		p.expireSample(now)
	}
	shown := s.control
	shown.Tick, shown.Width, shown.Mechanisms = 0, perf.CounterWidth32, 0
	if h.Method == mad.MethodGet {
		shown.Port = c.Port
	}
	shown.Put(data)
	return mad.StatusOK
}

// samplesResult answers a Get of PortSamplesResult.
func (p *performance) samplesResult(now time.Duration, h *mad.Header, data *[perf.DataLen]byte) uint16 {
	switch {
	case h.Method != mad.MethodGet:
		return mad.StatusMethodAttribute
	case h.Modifier != 0:
		return mad.StatusInvalid
	}
	p.expireSample(now)
	s := &p.sample
	r := perf.SamplesResult{Tag: s.control.Tag, Status: s.control.Status, Counters: s.result}
	r.Put(data)
	return mad.StatusOK
}

// expireSample starts or ends the sample if it is due.
func (p *performance) expireSample(now time.Duration) {
	s := &p.sample
	if s.control.Status == perf.SampleStarted && now >= s.at {
		s.control.Status, s.before = perf.SampleRunning, p.quantities()
		s.at += time.Duration(s.control.Interval) * sampleTick
	}
	if s.control.Status == perf.SampleRunning && now >= s.at {
		s.control.Status = perf.SampleDone
		for i, v := range p.quantities() {
			s.result[i] = uint32(min(v-s.before[i], 1<<32-1))
		}
	}
}

// deadline is when the sample starts or ends.
func (p *performance) deadline() time.Duration {
	if p.sample.control.Status == perf.SampleDone {
		return Never
	}
	return p.sample.at
}

// quantities reads what the sample counts.
func (p *performance) quantities() (v [perf.SampleCounters]uint64) {
	c := p.node.Counters(int(p.sample.control.Port))
	for i, q := range p.sample.control.Select {
		v[i] = quantity(c, q)
	}
	return v
}

func quantity(c *hardware.Counters, q perf.Quantity) uint64 {
	switch q {
	case perf.SampleXmitData:
		return c.XmitData
	case perf.SampleRcvData:
		return c.RcvData
	case perf.SampleXmitPackets:
		return c.XmitPackets
	case perf.SampleRcvPackets:
		return c.RcvPackets
	case perf.SampleXmitWait:
		return c.XmitWait
	}
	return 0
}
