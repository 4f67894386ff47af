package scenario

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"softrdma/internal/congestion"
)

const good = `title: two hosts
topology: star:4
duration: 1ms
links: {speed: 40Gbit, hosts: {cable: 2us}}
switch: {pfc: true, mark: {min: 10KiB, max: 20KiB, most: 0.5}}
sender: {control: dcqcn, mtu: 4096}
traffic:
  - {kind: incast, to: 0, size: 1MB, every: 100us}
  - {kind: random, sizes: hadoop, load: 0.5}
variants:
  - {name: a}
  - {name: b, switch: {pfc: false, mark: {most: 1}}, sender: {recovery: go-back-n}}
`

func TestVariantsChangeOnlyWhatTheyName(t *testing.T) {
	s, err := Parse("s.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	a, b := &s.Variants[0], &s.Variants[1]
	if a.Sender != s.Sender || a.Switch != s.Switch || a.Links != s.Links || !a.Switch.PFC {
		t.Errorf("%+v, expected the scenario's own", a)
	}
	want := s.Switch
	want.PFC, want.Mark.Most = false, 1
	if b.Switch != want || b.Sender.Recovery != GoBackN || b.Sender.Control.Kind != congestion.DCQCN || b.Sender.MTU != 4096 {
		t.Errorf("%+v", b)
	}
	if s.Limit != s.Duration || s.Sample != Duration(5*time.Microsecond) || s.Traffic[1].Name != "random" || s.Traffic[1].Stop != s.Duration {
		t.Errorf("%+v", s)
	}
}

func TestParseNamesLineAndColumn(t *testing.T) {
	const head = "topology: star:4\nduration: 1ms\n"
	for _, x := range []struct{ text, want string }{
		{"", "s.yaml:1:1: expected a scenario, found an empty file"},
		{"topolgy: star:4\n", `s.yaml:1:1: field "topolgy": expected one of title, about, topology`},
		{"duration: 1ms\n", "s.yaml:1:1: expected a topology, such as star:16, found none"},
		{"topology: stern:4\nduration: 1ms\n", `s.yaml:1:11: topology "stern:4": expected one of`},
		{"topology: star:4\nduration: soon\n", `s.yaml:2:11: duration "soon": expected a time with its unit`},
		{"topology: star:4\n", "s.yaml:1:1: duration: expected the time of the traffic"},
		{head, "s.yaml:1:1: traffic: expected at least one, found none"},
		{head + "traffic: [{kind: insact}]\n", `s.yaml:3:18: kind "insact": expected one of incast, permutation`},
		{head + "traffic: [{size: 1}]\n", "s.yaml:3:11: expected a kind, one of"},
		{head + "traffic: [{kind: incast}]\n", "s.yaml:3:11: size: expected the bytes of a message for kind incast, found none"},
		{head + "traffic: [{kind: incast, size: 1MB, to: 4}]\n", "s.yaml:3:41: to: expected a host from 0 to 3, found 4"},
		{head + "traffic: [{kind: incast, size: 1MB, load: 0.5}]\n", "s.yaml:3:43: load: expected none for kind incast"},
		{head + "traffic: [{kind: permutation, size: 1MB, hosts: [2]}]\n", "s.yaml:3:49: hosts: expected at least 2, found 1"},
		{head + "traffic: [{kind: permutation, size: 1MB, hosts: [2, 2]}]\n", "s.yaml:3:53: hosts: expected each host once, found 2 twice"},
		{head + "traffic: [{kind: message, from: [1, 2], to: [3, 2], size: 1}]\n", "s.yaml:3:37: from: expected another host than to, found 2"},
		{head + "traffic: [{kind: stream, from: [1, 2, 3], to: [0, 1]}]\n", "s.yaml:3:47: to: expected one host, or as many as from has, 3, found 2"},
		{head + "traffic: [{kind: random, load: 0.5}]\n", "s.yaml:3:11: expected sizes or size for kind random, found none"},
		{head + "traffic: [{kind: random, size: 1, load: -1}]\n", "s.yaml:3:41: load: expected a share of the links"},
		{head + "traffic: [{kind: random, size: 1, load: nan}]\n", "s.yaml:3:41: load: expected a share of the links"},
		{head + "switch: {mark: {most: nan}}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:23: most: expected a probability from 0 to 1, found NaN"},
		{head + "traffic: [{kind: random, sizes: yahoo, load: 0.5}]\n", `s.yaml:3:33: sizes "yahoo": expected one of hadoop, web-search`},
		{head + "traffic: [{kind: incast, size: 1MB, start: 2ms}]\n", "s.yaml:3:44: start: expected a time before stop, 1ms, found 2ms"},
		{head + "traffic: [{kind: incast, size: 1MB, every: 1ns}]\n", "s.yaml:3:44: every: expected at most 100000 repetitions, found 1000000"},
		{head + "limit: 1us\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:8: limit: expected at least duration, 1ms, found 1µs"},
		{head + "sender: {control: tcp}\n", `s.yaml:3:19: control "tcp": congestion control: expected window`},
		{head + "sender: {mtu: 1500}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:15: mtu: expected 256, 512, 1024, 2048 or 4096, found 1500"},
		{head + "switch: {mark: {min: 2kB, max: 1kB}}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:22: min: expected at most max, 1000, found 2000"},
		{head + "switch: {mark: {min: 2kB}}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:16: mark: expected max, from which on each packet is marked, found none"},
		{head + "switch: {watchdog: {detect: 1ms}}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:20: watchdog: expected none without pfc"},
		{head + "switch: {pfc: true, watchdog: {forward: true}}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:31: watchdog: expected detect"},
		{head + "sender: {dcqcn: {preset: paper}}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:17: dcqcn: expected none for control default"},
		{head + "sender: {control: dcqcn, dcqcn: {preset: papre}}\n", `s.yaml:3:42: preset "papre": expected one of device, paper`},
		{head + "sender: {control: hpcc, recovery: go-back-n}\ntraffic: [{kind: incast, size: 1}]\n", "s.yaml:3:35: recovery: expected selective for control hpcc"},
		{head + "traffic: [{kind: incast, size: 1, priority: 8}]\n", "s.yaml:3:45: priority: expected 0 to 7, found 8"},
		{head + "traffic: [{kind: incast, size: 1, part: 8}]\n", "s.yaml:3:41: part: expected none for kind incast"},
		{head + "traffic: [{kind: pause-storm}]\n", "s.yaml:3:11: expected hosts that take nothing, found none"},
		{head + "traffic: [{kind: tree-all-reduce, size: 2GiB, part: 1, every: 1us}]\n", "s.yaml:3:63: every: expected at most 100000000 messages"},
		{head + "switch: {mode: store}\n", `s.yaml:3:16: mode "store": expected one of cut-through, store-and-forward`},
		{head + "switch: {pfc: yes}\n", `s.yaml:3:15: pfc "yes": expected true or false`},
		{head + "links: {speed: 100}\n", `s.yaml:3:16: speed "100": expected a rate with its unit`},
		{head + "traffic: [{kind: incast, size: 1}]\nvariants: [{sender: {mtu: 256}}]\n", "s.yaml:4:12: expected a name, found none"},
		{head + "traffic: [{kind: incast, size: 1}]\nvariants: [{name: a, sender: {mtu: 1}}]\n", "s.yaml:4:36: mtu: expected 256"},
		{"topology: star:200\nduration: 1ms\ntraffic: [{kind: all-to-all, size: 1}, {kind: all-to-all, size: 1, every: 1us}]\n", ""},
		{"topology: star:200\nduration: 10ms\ntraffic: [{kind: all-to-all, size: 1, every: 1us}]\n", "s.yaml:3:46: every: expected at most 100000000 messages of a traffic, found 398000000"},
		{"topology: fat-tree:k=32\nduration: 1ms\ntraffic: [{kind: all-to-all, size: 1}]\n", "s.yaml:3:18: all-to-all: expected at most 1000000 messages at once, found 67100672"},
	} {
		_, err := Parse("s.yaml", []byte(x.text))
		if x.want == "" && err == nil {
			continue
		}
		if err == nil || x.want == "" || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%q:\n got %v\nwant %s", x.text, err, x.want)
		}
	}
}

func TestDrawnSizesHaveTheMean(t *testing.T) {
	for name := range distributions {
		r := rand.New(rand.NewPCG(1, 2))
		sum, n := 0.0, 200000
		for range n {
			sum += float64(name.Draw(r))
		}
		if got, want := sum/float64(n), name.Mean(); got < 0.97*want || got > 1.03*want {
			t.Errorf("%s: mean of %d draws %.0f, of the distribution %.0f", name, n, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("topology: ring:3\nduration: 1h\nsample: 1ns\ntraffic: [{kind: stream, from: 0, to: 1}]"))
	f.Add([]byte("topology: star:3\nduration: 1s\nsender: {control: dcqcn, dcqcn: {preset: paper, step: 5Gbit}}\ntraffic: [{kind: tree-all-reduce, size: 1TB, part: 1}, {kind: pause-storm, hosts: [0]}]"))
	f.Add([]byte("topology: star:2\nduration: 1s\ntraffic: [{kind: ring-all-reduce, size: 1TB}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse("f", b)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%v does not begin with the name", err)
			}
			return
		}
		if len(s.Variants) == 0 || s.Duration <= 0 || s.Limit < s.Duration || s.Sample <= 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The decrease of adapters is a part of the published control's parameters.
func TestDecreaseOfAdaptersIsTuned(t *testing.T) {
	s, err := Parse("x", []byte("topology: star:2\nduration: 1ms\nsender: {control: dcqcn, dcqcn: {preset: paper, decrease: 50us}}\ntraffic: [{kind: incast, size: 1kB}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := congestion.PaperTuning()
	want.Decrease = 50 * time.Microsecond
	if got := s.Sender.Tuning(); got == nil || *got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
}
