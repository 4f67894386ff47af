package exporter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/internal/adapter"
	"softrdma/internal/object"
)

const (
	sampleEvery = 50 * time.Millisecond // looks at the connections of all devices
	sampleMost  = 64                    // queue pairs of a lane at each look
	askEvery    = 20                    // looks between two questions to programs
	sampleFor   = 5 * time.Minute       // after the last question, since scrapes are usually at most minutes apart
)

// samples are what connections have measured, as seen by a goroutine that exists while there are
// questions. It locks each lane for a few microseconds at each look, so packets cost the same.
type samples struct {
	mu      sync.Mutex
	trips   *prometheus.HistogramVec
	windows *prometheus.HistogramVec
	delays  *prometheus.HistogramVec // from doorbell to completion
	asked   time.Time
	running bool
	last    map[*adapter.Device]map[uint32]uint32 // what each queue pair's peer had acknowledged
	sample  object.Sample
}

// init makes the histograms. Native histograms have buckets 10 % apart; others see the classic buckets.
func (s *samples) init() {
	if s.trips != nil {
		return
	}
	s.trips = histograms("round_trip_seconds", "Round trips of acknowledged packets, sampled while metrics are read.",
		prometheus.ExponentialBuckets(4e-6, 4, 10))
	s.windows = histograms("congestion_window_bytes", "Bytes that busy connections may have in flight, sampled while metrics are read.",
		prometheus.ExponentialBuckets(4<<10, 4, 6))
	s.delays = histograms("completion_latency_seconds", "Time from the doorbell of a send request to its completion, sampled while metrics are read.",
		prometheus.ExponentialBuckets(1e-6, 4, 11))
	s.last = make(map[*adapter.Device]map[uint32]uint32)
}

func histograms(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: namespace + name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, deviceLabels)
}

func (s *samples) describe(c chan<- *prometheus.Desc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	s.trips.Describe(c)
	s.windows.Describe(c)
	s.delays.Describe(c)
}

// collect yields the histograms, and lets samples be taken from now on.
func (s *samples) collect(x *Exporter, list []*device, c chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	s.take(list)
	s.asked = time.Now()
	if !s.running && len(list) > 0 {
		s.running = true
		go s.run(x)
	}
	s.trips.Collect(c)
	s.windows.Collect(c)
	s.delays.Collect(c)
}

// run takes samples until there was no question for a while, or no device is open.
func (s *samples) run(x *Exporter) {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for n := 0; ; n++ {
		<-t.C
		list := x.devices()
		programs := make([][]object.Sample, len(list))
		if n%askEvery == 0 {
			atOnce(list, func(i int, d *device) { programs[i] = d.ask() })
		}
		s.mu.Lock()
		if len(list) == 0 || time.Since(s.asked) > sampleFor {
			s.running = false
			for a := range s.last {
				a.EndLatencies()
			}
			clear(s.last)
			s.mu.Unlock()
			return
		}
		s.take(list)
		for i, all := range programs {
			for j := range all {
				s.observe(list[i], &all[j])
			}
		}
		s.mu.Unlock()
	}
}

// ask asks the programs that share the device's address for samples. Those that do not answer delay it.
func (d *device) ask() []object.Sample {
	if d.programs.Samples == nil {
		return nil
	}
	return d.programs.Samples()
}

// take looks at the connections of devices.
func (s *samples) take(list []*device) {
	open := make(map[*adapter.Device]bool)
	for _, d := range list {
		a := d.entry.Adapter
		open[a] = true
		s.sample.Connections = a.Measure(s.sample.Connections[:0], sampleMost)
		s.sample.Latencies = a.Latencies(s.sample.Latencies[:0])
		s.observe(d, &s.sample)
	}
	for a := range s.last {
		if !open[a] {
			delete(s.last, a)
		}
	}
}

// observe adds a sample of a device, or of a program that shares its address. Connections to which nothing
// was acknowledged since the last look have no new measurements.
func (s *samples) observe(d *device, x *object.Sample) {
	delays := s.delays.WithLabelValues(d.name, d.address)
	for _, t := range x.Latencies {
		delays.Observe(t.Seconds())
	}
	before := s.last[d.entry.Adapter]
	if before == nil || len(before) > 16*sampleMost { // also of queue pairs that are gone
		before = make(map[uint32]uint32)
		s.last[d.entry.Adapter] = before
	}
	trips, windows := s.trips.WithLabelValues(d.name, d.address), s.windows.WithLabelValues(d.name, d.address)
	for i := range x.Connections {
		m := &x.Connections[i]
		was, known := before[m.QPN]
		before[m.QPN] = m.Acknowledged
		if m.RoundTrip == 0 || known && was == m.Acknowledged {
			continue
		}
		trips.Observe(m.RoundTrip.Seconds())
		windows.Observe(float64(m.Window))
	}
}
