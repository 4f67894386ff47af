package simulate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/simulate/hosts"
	"softrdma/internal/simulate/scenario"
	"softrdma/internal/wire/ib"
)

func parse(t testing.TB, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runAll(t testing.TB, text string) []*Result {
	t.Helper()
	s := parse(t, text)
	var all []*Result
	for i := range s.Variants {
		x, err := Run(s, &s.Variants[i], s.Seed, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// A sender that waits for nothing takes exactly the time that is computed for an empty network.
func TestMessageInEmptyNetworkTakesIdealTime(t *testing.T) {
	for _, network := range []string{
		"topology: star:3\n", "topology: fat-tree:k=4\nlinks: {speed: 40Gbit, cable: 1us}\n",
		"topology: fat-tree:k=4\nlinks: {speed: 400Gbit, cable: 1us, hosts: {speed: 25Gbit}}\n",
		"topology: star:3\nlinks: {hosts: {cable: 2us}}\nsender: {mtu: 4096}\nswitch: {hop: 1us}\n",
		"topology: leaf-spine:leaves=2,hosts=2,oversubscription=1,speed=25G,switch-speed=100G,switch-length=30m\n",
		"topology: fat-tree:k=4,speed=400G\nlinks: {speed: 40Gbit}\n",
		"topology: fat-tree:k=4\nlinks: {speed: 40Gbit, cable: 1us, hosts: {speed: 25Gbit}}\nswitch: {mode: store-and-forward, hop: 1ns}\n",
	} {
		for _, size := range []string{"1", "1000", "1024", "1025", "5000", "300000"} {
			x := runAll(t, network+"duration: 10ms\nvariants: [{name: a, sender: {control: none}}]\n"+
				"traffic: [{kind: message, from: 0, to: 2, size: "+size+"}]\n")[0]
			if m := x.Messages[0]; m.End-m.Start != m.Ideal {
				t.Errorf("%s bytes over %q took %d ps, computed %d", size, network, m.End-m.Start, m.Ideal)
			}
		}
	}
}

// The control with the parameters of its authors knows the rate of the hosts' links, and a process's does not.
func TestPublishedControlKnowsTheLine(t *testing.T) {
	const rest = "sender: {control: dcqcn, first: 1MiB}\nvariants: [{name: a}, {name: b, sender: {dcqcn: {preset: paper}}}]\n" +
		"duration: 1ms\ntraffic: [{kind: message, from: 0, to: 1, size: 1}]\n"
	for network, line := range map[string]float64{
		"topology: star:2\nlinks: {speed: 40Gbit, hosts: {speed: 25Gbit}}\n":         25e9 / 8,
		"topology: leaf-spine:leaves=2,hosts=1,speed=400G\nlinks: {speed: 40Gbit}\n": 400e9 / 8,
	} {
		s := parse(t, network+rest)
		for i, want := range []float64{0, line} {
			r, err := newRun(s, &s.Variants[i], 1, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.sender.Tuning.Line; got != want {
				t.Errorf("%q, variant %d: %v bytes per second, expected %v", network, i, got, want)
			}
		}
	}
}

// With another hash the same messages take other paths.
func TestHashChangesPathsOnly(t *testing.T) {
	all := runAll(t, "topology: leaf-spine:leaves=2,spines=2,hosts=4\nduration: 1ms\nlimit: 10ms\n"+
		"traffic: [{kind: random, load: 0.8, size: 50000}]\nvariants: [{name: a}, {name: b, switch: {hash: 1}}]\n")
	var times [2]dcb.Time
	for i := range all[0].Messages {
		a, b := all[0].Messages[i], all[1].Messages[i]
		times[0], times[1] = times[0]+a.End-a.Start, times[1]+b.End-b.Start
		if a.From != b.From || a.To != b.To || a.Size != b.Size || a.Start != b.Start {
			t.Errorf("message %d: %+v and %+v", i, a, b)
		}
	}
	if len(all[0].Messages) < 8 || len(all[0].Messages) != len(all[1].Messages) || times[0] == times[1] {
		t.Errorf("%d and %d messages take %d and %d ps", len(all[0].Messages), len(all[1].Messages), times[0], times[1])
	}
}

// A load so small that no message comes before the end is not a storm of messages.
func TestSmallLoadSendsNothing(t *testing.T) {
	for _, load := range []string{"1e-9", "1e-13", "1e-300"} {
		x := runAll(t, "topology: star:4\nduration: 1ms\ntraffic: [{kind: random, size: 1GB, load: "+load+"}]\n")[0]
		if len(x.Messages) != 0 {
			t.Errorf("load %s: %d messages", load, len(x.Messages))
		}
	}
}

const busy = `topology: fat-tree:k=4
duration: 300us
limit: 500ms
links: {speed: 25Gbit, cable: 1us}
sender: {timeout: 500us}
switch: {buffer: 200KiB, mark: {min: 20KiB, max: 60KiB, most: 0.3}}
traffic:
  - {kind: random, sizes: hadoop, load: 0.6}
  - {kind: incast, to: 3, size: 20kB, every: 100us}
  - {kind: permutation, size: 64KiB}
  - {kind: all-to-all, hosts: [0, 5, 10, 15], size: 5000}
  - {kind: ring-all-reduce, hosts: [1, 2, 3, 4], size: 100kB}
variants:
  - {name: pfc, switch: {pfc: true}, sender: {control: dcqcn}}
  - {name: lossy, sender: {control: dcqcn, recovery: go-back-n}}
  - {name: sprayed, switch: {balance: packet}, sender: {control: window}}
`

func TestSameSeedGivesSameBytes(t *testing.T) {
	s := parse(t, strings.Replace(busy, "duration: 300us", "duration: 20us", 1))
	text := func(seed uint64) string {
		runs, err := RunAll(s, seed, 2, 0, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(Summarize(s, seed, runs))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := text(1)
	if text(1) != first {
		t.Error("two runs of one seed differ")
	}
	if text(2) == first {
		t.Error("runs of different seeds are the same")
	}
}

// A run gives the same bytes on any number of workers.
func TestWorkersChangeNothing(t *testing.T) {
	s := parse(t, strings.NewReplacer("fat-tree:k=4", "fat-tree:k=4,hosts=6", "duration: 300us", "duration: 40us", "variants:",
		"  - {kind: tree-all-reduce, size: 100kB}\n  - {kind: pause-storm, hosts: [7], stop: 20us}\nvariants:").Replace(busy))
	for i := range s.Variants[:2] {
		var first string
		for _, workers := range []int{1, 3} {
			x, err := simulate(s, &s.Variants[i], 1, workers, 1, nil) // together in each window of time
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = string(b)
			}
			if string(b) != first {
				t.Errorf("%s: %d workers have another result than one", s.Variants[i].Name, workers)
			}
		}
	}
}

// No message is faster than in an empty network, all arrive, and PFC loses nothing.
func TestBusyNetworkDeliversAll(t *testing.T) {
	for i, x := range runAll(t, busy) {
		for k := range x.Messages {
			m := &x.Messages[k]
			if m.End == dcb.Never || m.Slowdown() < 1 {
				t.Errorf("variant %d: %+v", i, m)
			}
		}
		if len(x.Messages) < 100 || x.Failed != 0 {
			t.Errorf("variant %d: %d messages, %d connections failed", i, len(x.Messages), x.Failed)
		}
		if lossy := i > 0; lossy != (len(x.Drops) > 0) {
			t.Errorf("variant %d: drops %v", i, x.Drops)
		}
	}
}

func TestStreamsShareTheLink(t *testing.T) {
	x := runAll(t, `topology: star:3
duration: 2ms
warm: 500us
switch: {pfc: true}
sender: {control: none}
traffic: [{kind: stream, from: [0, 1], to: 2, stop: 1500us}]
`)[0]
	if len(x.Streams) != 2 || x.Fairness() < 0.999 {
		t.Fatalf("%+v, fairness %.3f", x.Streams, x.Fairness())
	}
	full := 100e9 / 8 * float64(hosts.DefaultMTU) / float64(dcb.WireLen(hosts.FrameLen(ib.RCWriteMiddle, hosts.DefaultMTU)))
	if sum := x.Streams[0].Rate + x.Streams[1].Rate; sum < 0.99*full || sum > 1.001*full {
		t.Errorf("%.4g bytes per second, expected %.4g", sum, full)
	}
	if at := x.End.Duration(); at < 1500*time.Microsecond || at > 1600*time.Microsecond {
		t.Errorf("ended at %v", at)
	}
}

// A stream that fails is one failure, however many of its messages are lost.
func TestStreamFailsOnce(t *testing.T) {
	x := runAll(t, `topology: star:2
duration: 100ms
sender: {timeout: 20us, control: none}
traffic:
  - {kind: stream, from: 0, to: 1, stop: 90ms}
  - {kind: pause-storm, hosts: [1], start: 10us, stop: 95ms}
`)[0]
	if x.Failed != 1 || len(x.Streams) != 1 || x.Streams[0].Rate == 0 {
		t.Errorf("%d failed, %+v, %v", x.Failed, x.Streams, x.Reasons)
	}
}

func TestRingTakesItsSteps(t *testing.T) {
	x := runAll(t, `topology: fat-tree:k=4
duration: 10ms
sender: {control: none}
traffic: [{kind: ring-all-reduce, size: 1MB}]
`)[0]
	if m := &x.Messages[0]; len(x.Messages) != 1 || m.End == dcb.Never || m.Slowdown() > 1.2 {
		t.Errorf("%+v, slowdown %.3f", x.Messages, m.Slowdown())
	}
}

func TestFailedConnectionIsCounted(t *testing.T) {
	x := runAll(t, `topology: star:3
duration: 1s
switch: {buffer: 1000}
sender: {control: none, timeout: 8us}
traffic: [{kind: message, from: [0], to: [2], size: 10kB}]
`)[0]
	if x.Failed != 1 || x.Messages[0].End != dcb.Never || x.End.Duration() > time.Second/2 {
		t.Errorf("%d failed, %+v, ended at %v", x.Failed, x.Messages, x.End.Duration())
	}
}

func TestStoppedRunSaysWhen(t *testing.T) {
	s := parse(t, "topology: star:3\nduration: 1ms\ntraffic: [{kind: stream, from: 0, to: 1}]\n")
	if _, err := RunAll(s, 1, 1, 0, func() bool { return true }, nil); err == nil || !strings.Contains(err.Error(), "stopped at 0s") {
		t.Error(err)
	}
}

// A run can be stopped long before its next sample.
func TestRunStopsBetweenSamples(t *testing.T) {
	s := parse(t, "topology: star:3\nduration: 10ms\nsample: 10ms\nsender: {control: none}\ntraffic: [{kind: stream, from: 0, to: 1}]\n")
	asked := 0
	_, err := Run(s, &s.Variants[0], 1, 1, func() bool { asked++; return asked > 1 })
	if err == nil || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// A small file does not take all memory: each message is kept for the result.
func TestTooManyMessagesAreRefused(t *testing.T) {
	s := parse(t, "topology: star:4\nduration: 1s\ntraffic: [{kind: random, name: r, size: 1, load: 1}]\n")
	stop := func() bool { return true }
	if _, err := Run(s, &s.Variants[0], 1, 1, stop); err == nil || !strings.Contains(err.Error(), `traffic "r": expected at most 100000000 messages, found about 5e+10`) {
		t.Error(err)
	}
}

// A tree reaches all hosts, takes no less than the least, and little more in an empty network.
func TestTreeTakesItsLevels(t *testing.T) {
	for _, c := range []struct {
		network string
		size    string
		most    float64
	}{
		{"star:2", "1", 1.02}, {"star:2", "1MB", 1.2}, {"star:3", "1MB", 2.1}, {"star:9", "2MiB", 1.6}, {"fat-tree:k=4", "64KiB", 2}, {"fat-tree:k=4", "1MB", 3},
	} {
		x := runAll(t, "topology: "+c.network+"\nduration: 10ms\nsender: {control: none}\ntraffic: [{kind: tree-all-reduce, size: "+c.size+"}]\n")[0]
		if m := &x.Messages[0]; len(x.Messages) != 1 || m.End == dcb.Never || m.Slowdown() < 1 || m.Slowdown() > c.most {
			t.Errorf("%s, %s: %+v, slowdown %.3f", c.network, c.size, x.Messages, m.Slowdown())
		}
	}
}

// Traffic of a priority of its own does not wait behind that of another one.
func TestPrioritiesKeepTrafficApart(t *testing.T) {
	const text = `topology: star:5
duration: 1ms
sender: {control: none}
switch: {pfc: true}
traffic:
  - {kind: stream, from: [0, 1, 2], to: 4}
  - {kind: message, from: 3, to: 4, size: 1kB, start: 500us, priority: `
	apart, together := runAll(t, text+"5}\n")[0], runAll(t, text+"3}\n")[0]
	if a, b := apart.Messages[0].Slowdown(), together.Messages[0].Slowdown(); a > 1.5 || b < 10 {
		t.Errorf("slowdown %.1f on a priority of its own, and %.1f beside streams", a, b)
	}
}

// Headroom that takes the buffer is not what the author of a scenario meant.
func TestHeadroomThatTakesTheBufferIsNamed(t *testing.T) {
	s := parse(t, "topology: star:8\nduration: 10us\nlinks: {cable: 10us}\nswitch: {pfc: true}\ntraffic: [{kind: incast, size: 1}]\n"+
		"variants: [{name: a}, {name: b, switch: {buffer: 1MiB}}, {name: c, switch: {buffer: 1MiB, pfc: false}}]\n")
	runs, err := RunAll(s, 1, 1, 0, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range Summarize(s, 1, runs).Variants {
		if named := len(v.Warnings) == 1 && strings.Contains(v.Warnings[0], "headroom takes"); named != (i == 1) {
			t.Errorf("%s: warnings %q", v.Name, v.Warnings)
		}
	}
}
