package compare

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Rows as perftest 4.5 printed them in a virtual machine.
const (
	perftestStream = ` GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:02
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 8          20000            0.35               0.05   		   0.006424
---------------------------------------------------------------------------------------
`
	perftestPing = `---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       2000          13.62          133702.54      16.93    	       2392.08     	4542.93		35804.76 		125520.60
---------------------------------------------------------------------------------------
`
)

func TestParsePerftest(t *testing.T) {
	r, err := parsePerftest(perftestStream, Stream)
	if err != nil || r.Rate != 6424 || r.Throughput != 8*6424 {
		t.Errorf("stream: %+v, %v", r, err)
	}
	r, err = parsePerftest(perftestPing, Ping)
	if err != nil || r.P50 != 16.93 || r.P99 != 35804.76 {
		t.Errorf("ping: %+v, %v", r, err)
	}
	// The deviation is sometimes not a number. It is not used.
	if again, err := parsePerftest(strings.Replace(perftestPing, "4542.93", "-nan", 1), Ping); err != nil || again != r {
		t.Errorf("ping with a deviation of -nan: %+v, %v", again, err)
	}
	for _, out := range []string{"", "#bytes", perftestStream[:len(perftestStream)/2], strings.Replace(perftestStream, "0.35", "x", 1)} {
		if r, err := parsePerftest(out, Stream); err == nil {
			t.Errorf("%q reads as %+v", out, r)
		}
	}
	if r, err := parsePerftest(strings.Replace(perftestStream, "0.006424", "0.000000", 1), Stream); !errors.Is(err, errClock) {
		t.Errorf("nothing measured: %+v, %v", r, err)
	}
	if r, err := parsePerftest(perftestStream, Ping); err == nil {
		t.Errorf("a stream reads as the ping %+v", r)
	}
}

// A machine records the command lines that it is asked to run.
type machine struct {
	served, ran [][]string
	ready       string
	answer      string
	stopped     int
}

func (m *machine) Serve(_ context.Context, ready string, argv ...string) (func(), error) {
	m.served, m.ready = append(m.served, argv), ready
	return func() { m.stopped++ }, nil
}

func (m *machine) Run(_ context.Context, argv ...string) ([]byte, error) {
	m.ran = append(m.ran, argv)
	if m.answer == "" {
		return nil, errors.New("no answer")
	}
	return []byte(m.answer), nil
}

func TestGuestRunsBothEnds(t *testing.T) {
	m := &machine{answer: perftestStream}
	ended := false
	p := Guest(m, func() { ended = true })
	w := Work{Tool: RxeName, Kind: Stream, Op: "write", Bytes: word, MTU: 4096}
	r, err := Perftest{Device: "rxe0", GID: 1}.Run(t.Context(), p, w, time.Second)
	if err != nil || r.Rate != 6424 || len(m.served) != 1 || len(m.ran) != 1 || m.stopped != 1 {
		t.Fatalf("%+v, %v; %+v", r, err, m)
	}
	ask := strings.Join(m.ran[0], " ")
	if !slices.Equal(m.served[0], m.ran[0][:len(m.ran[0])-1]) || !strings.HasSuffix(ask, " "+p.Server.String()) || !strings.Contains(ask, "ib_write_bw") {
		t.Errorf("ran %q and %q", m.served[0], ask)
	}
	// Linux's Soft RoCE uses RoCE's UDP port on all addresses.
	if _, err := (Softrdma{Path: "softrdma"}).Run(t.Context(), p, Work{Kind: Ping, Op: "send", Bytes: word}, time.Second); err == nil {
		t.Error("perftest's output was parsed as softrdma's")
	}
	if ask := strings.Join(m.ran[1], " "); !strings.Contains(ask, "-d 127.12.0.1:4793 ") || m.stopped != 2 {
		t.Errorf("ran %q", ask)
	}
	m.answer = ""
	if _, err := (Perftest{}).Run(t.Context(), p, w, time.Second); err == nil || m.stopped != 3 {
		t.Errorf("a client that failed: %v", err)
	}
	if p.Close(); !ended {
		t.Error("the machine stays")
	}
}

func TestExecRunsPerftestOnOneDaemonsDevice(t *testing.T) {
	m := &machine{answer: perftestStream}
	p := Guest(m, nil)
	w := Work{Tool: ExecName, Kind: Stream, Op: "write", Bytes: word, MTU: 4096}
	r, err := Exec{Path: "softrdma"}.Run(t.Context(), p, w, time.Second)
	if err != nil || r.Rate != 6424 || len(m.served) != 2 || len(m.ran) != 1 || m.stopped != 2 {
		t.Fatalf("%+v, %v; %+v", r, err, m)
	}
	if want := []string{"softrdma", "daemon", "-d", "127.12.0.2:4793"}; !slices.Equal(m.served[0], want) {
		t.Errorf("served by %q", m.served[0])
	}
	// Except for the prefix and the device the command line is the same as on rxe.
	if _, err := (Perftest{Device: "rxe0"}).Run(t.Context(), p, w, time.Second); err != nil {
		t.Fatal(err)
	}
	port := slices.Index(m.ran[0], "-p") + 1
	under := []string{"softrdma", "exec", "--engine", "daemon", "--"}
	for _, lines := range [][2][]string{{m.served[1], m.served[2]}, {m.ran[0], m.ran[1]}} {
		plain := lines[1]
		plain[port-len(under)] = m.ran[0][port]
		if !slices.Equal(lines[0], slices.Concat(under, plain)) {
			t.Errorf("ran %q beside %q", lines[0], plain)
		}
	}
}

func TestPerftestIsRepeatedAfterAWrongClock(t *testing.T) {
	m := &machine{answer: strings.Replace(perftestStream, "0.006424", "0.000000", 1)}
	w := Work{Tool: RxeName, Kind: Stream, Op: "write", Bytes: word}
	if r, err := (Perftest{}).Run(t.Context(), Guest(m, nil), w, time.Second); !errors.Is(err, errClock) || len(m.ran) != clockTries || m.stopped != clockTries {
		t.Errorf("%+v, %v after %d runs", r, err, len(m.ran))
	}
}

func TestGuestFiguresCompareTheSameWork(t *testing.T) {
	of := map[string]bool{"softrdma": true, ExecName: true, ProgramName: true, ProgramMemoryName: true}
	peers := map[string]bool{RxeName: true, UCX{}.Name(): true, UCX{Shared: true}.Name(): true}
	for _, f := range Guest(&machine{}, nil).Figures() {
		w, against := f.Of.Work, f.Against.Work
		if !of[w.Tool] || !peers[against.Tool] || f.Of.Metric != f.Against.Metric {
			t.Errorf("%s: %v and %v", f.Name, w, against)
		}
		if against.Tool != RxeName { // its operations have other names
			w.Op, w.MTU = against.Op, against.MTU
		}
		if against.Tool = w.Tool; w != against {
			t.Errorf("%s: %v and %v", f.Name, w, against)
		}
		if f.Gate != 0 && !f.Reached(f.Stretch, f.Gate) {
			t.Errorf("%s: gate %v, stretch %v", f.Name, f.Gate, f.Stretch)
		}
	}
}

func TestUCXTransports(t *testing.T) {
	m := &machine{answer: "500,1,1,1,1,1,1,1\n"}
	for _, u := range []UCX{{}, {Shared: true}} {
		if _, err := u.Run(t.Context(), Guest(m, nil), Work{Kind: Ping, Op: "tag_lat", Bytes: word}, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"UCX_TLS=tcp,self", "UCX_TLS=posix,cma,self"} {
		if !slices.Contains(m.served[i], want) || !slices.Contains(m.ran[i], want) {
			t.Errorf("expected %s, ran %q and %q", want, m.served[i], m.ran[i])
		}
	}
}
