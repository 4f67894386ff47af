package compare

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"softrdma/bench/relay"
)

// What each protocol makes of a long path: the table of docs/wan.md. It takes minutes, so it runs only if asked to:
//
//	cd bench && sudo SOFTRDMA_PROGRAM=$PWD/../bin/softrdma go test -count=1 -v -run TestProtocolsOverPaths ./compare
func TestProtocolsOverPaths(t *testing.T) {
	program := wanProgram(t)
	protocols := []struct{ name, flags string }{
		{"RoCE v2", "--same-host off"},
		{"RoCE v2 in PSP", "--psk-file psk"},
		{"iWARP", "--protocol iwarp"},
		{"iWARP with TLS", "--protocol iwarp --psk-file psk"},
	}
	t.Log("| path | protocol | goodput, Mbit/s | latency, ms |")
	for _, c := range []struct{ ms, loss float64 }{{20, 0}, {20, 1}, {100, 1}} {
		r, err := NewRelay()
		if err != nil {
			t.Fatal(err)
		}
		l := relay.Config{Rate: 500e6, Delay: time.Duration(c.ms / 2 * float64(time.Millisecond)), Loss: c.loss / 100, Seed: 1}
		l.Queue = int(float64(l.Rate) / 8 * c.ms / 1000)
		if err := r.Start(l); err != nil {
			t.Fatal(err)
		}
		x := copies{t: t, r: r, dir: t.TempDir(), program: program}
		x.secret()
		for _, p := range protocols {
			// The ends wait for events: on few processors, ends that poll take the time of the relay and of their own packets.
			bulk := x.perf("write bw", p.flags, "-e -s 65536 -t 256 -D 4 --margin 1")
			ping := x.perf("write lat", p.flags, "-s 8 -n 10")
			if len(bulk.Bandwidth) != 1 || len(ping.Latency) != 1 {
				t.Errorf("%v ms, %v %% lost, %s: %+v, %+v", c.ms, c.loss, p.name, bulk, ping)
				continue
			}
			t.Logf("| %v ms, %v %% lost | %s | %.0f | %.1f |", c.ms, c.loss, p.name, bulk.Bandwidth[0].Gbit*1000, ping.Latency[0].P50/1000)
		}
		_, _ = r.Stop()
		r.Close()
	}
}

// perf measures with softrdma perf.
func (x *copies) perf(what, flags, settings string) (r perfReport) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), 30*time.Second)
	defer cancel()
	device := "-d "
	if strings.Contains(flags, "iwarp") {
		device += "iwarp:"
		flags = strings.TrimPrefix(flags, "--protocol iwarp")
	}
	s := x.command(ctx, server, x.program+" perf "+what+" "+flags+" "+device+x.r.Path.Server.String())
	x.must(s.Start())
	time.Sleep(time.Second) // until it listens
	out, err := x.command(ctx, client, x.program+" perf "+what+" --json "+settings+" "+flags+" "+device+x.r.Path.Client.String()+" {S}").Output()
	_ = s.Process.Kill()
	_ = s.Wait()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		x.t.Logf("%s %s: %v: %s", what, flags, err, out)
	}
	return r
}
