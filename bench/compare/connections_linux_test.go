package compare

import (
	"context"
	"slices"
	"testing"
	"time"

	"softrdma/bench/relay"
)

// How many round trips of a long path a connection takes more with encryption: rping connects, sends one message and
// disconnects, in the clear and encrypted, in turn. It runs only if asked to:
//
//	cd bench && sudo SOFTRDMA_PROGRAM=$PWD/../bin/softrdma go test -count=1 -v -run TestConnectionsOverALongPath ./compare
func TestConnectionsOverALongPath(t *testing.T) {
	program := wanProgram(t)
	r, err := NewRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const trip = 200 * time.Millisecond
	if err := r.Start(relay.Config{Rate: 500e6, Delay: trip / 2, Queue: 1 << 20, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Stop() }()
	x := copies{t: t, r: r, dir: t.TempDir(), program: program}
	x.prepare(1)
	took := map[string][]time.Duration{}
	for range 9 {
		for _, flags := range []string{" --same-host off", " --psk-file psk"} {
			took[flags] = append(took[flags], x.connect(flags))
		}
	}
	middle := func(flags string) float64 {
		slices.Sort(took[flags])
		return took[flags][len(took[flags])/2].Seconds() / trip.Seconds()
	}
	clear, sealed := middle(" --same-host off"), middle(" --psk-file psk")
	t.Logf("in the clear %.2f round trips, encrypted %.2f, %.2f more; all with the start of the program", clear, sealed, sealed-clear)
	if sealed-clear > 1.5 {
		t.Errorf("expected at most 1.5 round trips more")
	}
}

// connect returns how long a client takes.
func (x *copies) connect(flags string) time.Duration {
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	s := x.command(ctx, server, x.program+" rping -s -C 1 -a {S}"+flags)
	x.must(s.Start())
	time.Sleep(time.Second) // until it listens
	began := time.Now()
	out, err := x.command(ctx, client, x.program+" rping -c -C 1 -a {S}"+flags).CombinedOutput()
	took := time.Since(began)
	_ = s.Process.Kill()
	_ = s.Wait()
	if err != nil {
		x.t.Fatalf("rping%s: %v: %s", flags, err, out)
	}
	return took
}
