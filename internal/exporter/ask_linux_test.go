package exporter

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/internal/object"
	"softrdma/verbs"
)

// together returns a function that returns when it was called n times, and false if that does not happen.
func together(n int) func() bool {
	var mu sync.Mutex
	all := make(chan struct{})
	return func() bool {
		mu.Lock()
		if n--; n == 0 {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return true
		case <-time.After(30 * time.Second):
			return false
		}
	}
}

// Programs that do not answer delay a scrape once, not for each of their devices.
func TestProgramsOfAllDevicesAreAskedAtOnce(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", "off")
	var devices []*verbs.Device
	for _, at := range []string{"127.14.27.1", "127.14.27.2"} {
		d, err := verbs.OpenRoCE(context.Background(), at, verbs.RoCEConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		devices = append(devices, d)
	}
	x := New(devices...)
	counting, sampling := together(2), together(2)
	sampled := make(chan bool, 16)
	x.SetPrograms(func(*verbs.Device) Counted {
		return Counted{
			Name: "rxe0",
			Objects: func() object.Counts {
				if !counting() {
					t.Error("the programs of one device are asked for their objects after those of the other")
				}
				return object.Counts{}
			},
			Samples: func() []object.Sample {
				select {
				case sampled <- sampling():
				default:
				}
				return nil
			},
		}
	})
	c := make(chan prometheus.Metric, 10_000)
	x.Collect(c)
	if !<-sampled {
		t.Error("the programs of one device are asked for samples after those of the other")
	}
}
