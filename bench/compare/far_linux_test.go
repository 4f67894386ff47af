package compare

import (
	"context"
	"strings"
	"testing"
	"time"

	"softrdma/bench/relay"
)

// What unmodified programs and softrdma perf make of a path of 100 ms that loses packets, if they have as much in
// flight as it needs. It takes minutes, so it runs only if asked to:
//
//	cd bench && sudo SOFTRDMA_PROGRAM=$PWD/../bin/softrdma go test -count=1 -v -run TestProgramsOverALongPath ./compare
func TestProgramsOverALongPath(t *testing.T) {
	program := wanProgram(t)
	if err := (Perftest{}).Check(); err != nil {
		t.Skip(err)
	}
	const trip = 100 * time.Millisecond
	for _, loss := range []float64{0, .01} {
		r, err := NewRelay()
		if err != nil {
			t.Fatal(err)
		}
		c := relay.Config{Rate: 500e6, Delay: trip / 2, Loss: loss, Seed: 1, Queue: int(500e6 / 8 * trip.Seconds())}
		if err := r.Start(c); err != nil {
			t.Fatal(err)
		}
		x := copies{t: t, r: r, dir: t.TempDir(), program: program}
		for _, op := range []string{"write", "read"} {
			const settings = "-s 65536 -t 512"
			own := x.perf(op+" bw", "--same-host off", settings+" -e -D 10 --margin 2")
			if len(own.Bandwidth) != 1 {
				t.Errorf("%v lost, perf %s bw: %+v", loss, op, own)
				continue
			}
			theirs := x.perftest("ib_"+op+"_bw -F -d rxe0 -x 1 "+settings+" -n 8000") * 8 / 1e6 // it has no events for WRITEs
			t.Logf("%v lost, %s of 64 KiB: softrdma perf %.0f Mbit/s, ib_%s_bw %.0f", loss, op, own.Bandwidth[0].Gbit*1000, op, theirs)
			if theirs < 150 { // on few processors the programs, which poll, take the time of the relay
				t.Errorf("%v lost: ib_%s_bw reaches %.0f Mbit/s", loss, op, theirs)
			}
		}
		_, _ = r.Stop()
		r.Close()
	}
}

// perftest runs a program of perftest under softrdma exec at both ends, and returns bytes a second.
func (x *copies) perftest(line string) float64 {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	p := x.r.Path
	under := func(end int) string {
		return strings.Join(p.exec(x.program, "program", "off", end), " ") + " " + line
	}
	s := x.command(ctx, server, under(server))
	x.must(s.Start())
	time.Sleep(2 * time.Second) // until it listens
	out, err := x.command(ctx, client, under(client)+" {S}").CombinedOutput()
	_ = s.Process.Kill()
	_ = s.Wait()
	if err != nil {
		x.t.Errorf("%s: %v: %s", line, err, out)
		return 0
	}
	result, err := parsePerftest(string(out), Stream)
	if err != nil {
		x.t.Errorf("%s: %v", line, err)
	}
	return result.Throughput
}
