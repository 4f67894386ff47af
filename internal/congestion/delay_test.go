package congestion

import (
	"testing"
	"time"
)

// TestDelaySharesOneQueueFairly has flows with different windows share a queue of 1.25 GB/s
// after a path of 20 µs, in steps of a round trip.
func TestDelaySharesOneQueueFairly(t *testing.T) {
	const flows, rate, path = 16, 1.25e9, 20 * time.Microsecond
	var c [flows]*delay
	var r [flows]RTT
	for i := range c {
		c[i] = newDelay(testLimits)
		c[i].size, c[i].fresh = float64((i+1)*testPacket), false
		r[i].Sample(0, path)
	}
	now := time.Duration(0)
	sum, sent := time.Duration(0), [flows]float64{}
	const steps, warm = 6000, 2000
	for step := range steps {
		total := 0.0
		for i := range c {
			total += c[i].size
		}
		trip := max(path, time.Duration(total/rate*float64(time.Second)))
		now += trip
		for i := range c {
			r[i].Sample(now, trip)
			n := c[i].size
			c[i].Acked(now, int(n), trip, &r[i])
			if step >= warm {
				sent[i] += n
			}
		}
		if step >= warm {
			sum += trip
		}
	}
	if mean := sum/(steps-warm) - path; mean > queueTarget+scaleTarget {
		t.Errorf("%v of queueing on average", mean)
	}
	if j := Jain(sent[:]); j < 0.95 {
		t.Errorf("fairness %.3f: %v", j, sent)
	}
}

func TestDelayGrowsOnAnEmptyPathAndIgnoresAccidents(t *testing.T) {
	d := newDelay(testLimits)
	r := calm()
	now := time.Duration(0)
	for i := range 1000 {
		now += time.Microsecond
		if i%20 == 0 {
			d.Lost(now, testPacket, r)
			continue
		}
		d.Acked(now, testPacket, r.Latest(), r)
	}
	if d.Window() != testLimit {
		t.Fatalf("window %d with 5 %% lost on an empty path", d.Window())
	}
	r.Sample(now, time.Millisecond)
	d.Acked(now, testPacket, time.Millisecond, r)
	w := d.Window()
	if w >= testLimit || w < testLimit/2 {
		t.Fatalf("window %d after a round trip of a millisecond", w)
	}
	d.Acked(now, testPacket, time.Millisecond, r)
	if d.Window() != w {
		t.Fatalf("cut twice in a round trip")
	}
}
