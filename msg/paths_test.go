package msg_test

import (
	"errors"
	"flag"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/msg"
	"softrdma/verbs"
)

// A path is a way between two devices.
type path struct {
	name    string
	devices [3]string // two for workers, and one for another process, as verbs.Open names them
	config  verbs.Config
	linux   bool // only there
}

// rings reports whether workers of two processes, or of devices that do not see each other in this one,
// send frames through shared memory.
func (p *path) rings() bool {
	return p != nil && p.config.SameHost == verbs.SameHostRequire && !ringless
}

// ringless is set while a test is about frames on queue pairs.
var ringless bool

// withoutRings makes a test use queue pairs alone.
func withoutRings(t testing.TB) {
	restore := msg.LimitRings(0)
	ringless = true
	t.Cleanup(func() {
		restore()
		ringless = false
	})
}

// paths are the paths that the tests take. The network of RoCE is UDP over the loopback interface.
var paths = []path{
	{name: "RoCE", devices: [3]string{"127.0.0.21", "127.0.0.22", "127.0.0.23"}, config: verbs.Config{NoLoopback: true, SameHost: verbs.SameHostOff}},
	{name: "same host", devices: [3]string{"127.0.0.21", "127.0.0.22", "127.0.0.23"}, config: verbs.Config{NoLoopback: true, SameHost: verbs.SameHostRequire}, linux: true},
	{name: "iWARP", devices: [3]string{"iwarp:127.0.0.21", "iwarp:127.0.0.22", "iwarp:127.0.0.23"}},
	{name: "InfiniBand", devices: [3]string{"ib:"}, linux: true},
}

// taken is the path of the test that runs. These tests are not parallel.
var taken *path

var onePath = flag.String("path", "", "the path that tests take; empty means all")

// needOwnProgress skips a test on a fabric, whose goroutine carries each packet: testing.AllocsPerRun
// leaves one processor, and a program that polls would let it run every 10 ms.
func needOwnProgress(t *testing.T) {
	if strings.HasPrefix(taken.devices[0], "ib:") {
		t.Skip("SKIPPED on InfiniBand: allocations are counted on one processor, which the fabric needs")
	}
}

// openOn opens a device of a path. Of a fabric it waits until the port is active.
func openOn(t testing.TB, p *path, i int) *verbs.Device {
	t.Helper()
	dev, err := openFree(p.devices[i], p.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	if dev.Protocol() == verbs.InfiniBand {
		fabrictest.WaitFor(t, "an active port", func() bool { return dev.QueryPort().State == verbs.PortActive })
	}
	return dev
}

// openFree opens a device. It waits for an address that another run of these tests has.
func openFree(name string, c verbs.Config) (*verbs.Device, error) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		dev, err := verbs.Open(name, c)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return dev, err
		}
	}
}

// start makes a path usable for a test.
func (p *path) start(t testing.TB) {
	t.Helper()
	if p.linux && runtime.GOOS != "linux" {
		t.Skipf("SKIPPED path %s: not Linux", p.name)
	}
	if strings.HasPrefix(p.devices[0], "ib:") {
		f := fabrictest.Start(t, "star:3")
		for i, name := range f.Adapters {
			p.devices[i] = "ib:" + name
		}
	}
	taken = p
	t.Cleanup(func() { taken = nil })
}

// shortPaths is the number of paths that short runs take: what is special to a device of iWARP or
// InfiniBand is below msg, and the race detector makes it slow.
const shortPaths = 2

// each runs a test with two workers on devices of each path.
func each(t *testing.T, c msg.Config, f func(t *testing.T, a, b *msg.Worker)) {
	for i, p := range paths {
		if testing.Short() && i >= shortPaths {
			break
		}
		if *onePath != "" && *onePath != p.name {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			p.start(t)
			var w [2]*msg.Worker
			for i := range w {
				dev := openOn(t, &p, i)
				var err error
				if w[i], err = msg.NewWorker(dev, c); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := w[i].Close(); err != nil && !errors.Is(err, msg.ErrClosed) {
						t.Error(err)
					}
				})
			}
			f(t, w[0], w[1])
		})
	}
}
