package compare

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"softrdma/bench/relay"
)

// A carrier is a fake relay whose runs have the given delays.
type carrier struct {
	config relay.Config
	runs   int
	late   []float64 // of the first runs, in µs
}

func (c *carrier) Start(to relay.Config) error { c.config = to; return nil }

func (c *carrier) Stop() (a Account, err error) {
	if c.runs < len(c.late) {
		a.LateP99 = c.late[c.runs]
	}
	c.runs++
	a.Forward = relay.Stats{Entered: 10, Left: 9, Lost: 1, Marked: 3}
	a.Later = 1000
	return a, nil
}

// A fakeSender returns a goodput that depends on the carrier's loss rate.
type fakeSender struct {
	name    string
	on      *carrier
	missing error
	fail    error
	per     float64 // share of the rate that each percent of loss costs
}

func (p fakeSender) Name() string { return p.name }
func (p fakeSender) Check() error { return p.missing }

func (p fakeSender) Saturate(_ context.Context, _ *Path, flows int, d, margin time.Duration) (Goodput, error) {
	if p.fail != nil {
		return Goodput{}, p.fail
	}
	if d-2*margin != time.Second {
		return Goodput{}, errors.New("not a second counts")
	}
	shares := make([]float64, flows)
	for i := range shares {
		shares[i] = 1e8 * (1 - p.per*100*p.on.config.Loss)
	}
	return newGoodput(shares), nil
}

func newLossRun(c *carrier, senders ...Sender) *LossRun {
	return &LossRun{Relay: c, Network: LossNetwork(), Senders: senders, Impairments: Impairments(), Rounds: 2, Each: time.Second}
}

func TestLossRunFiguresAreOfTheFirstSender(t *testing.T) {
	c := &carrier{}
	r := newLossRun(c, fakeSender{name: "softrdma", on: c, per: .05}, fakeSender{name: "TCP cubic", on: c, per: .8}, fakeSender{name: "TCP bbr", missing: errors.New("no bbr here")})
	got, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 32 || len(got.Senders) != 2 || c.runs != 2*32*2 {
		t.Fatalf("%d impairments of %v, %d runs", len(got.Rows), got.Senders, c.runs)
	}
	if len(got.Missing) != 1 || !strings.Contains(got.Missing[0], "no bbr here") {
		t.Errorf("missing %q", got.Missing)
	}
	want := []struct {
		ratio   float64
		verdict string
	}{{.95, "gate"}, {.95 / .2, "gate"}, {.75, "gate"}}
	if len(got.Figures) != len(want) {
		t.Fatalf("%d figures", len(got.Figures))
	}
	for i, w := range want {
		if f := got.Figures[i]; f.Ratio < w.ratio-1e-9 || f.Ratio > w.ratio+1e-9 || f.Verdict() != w.verdict {
			t.Errorf("%s: %v, %s; expected %v, %s", f.Name, f.Ratio, f.Verdict(), w.ratio, w.verdict)
		}
	}
	if s := got.Account.Forward; s.Lost != c.runs || s.Entered != 10*c.runs {
		t.Errorf("the account of all runs is %+v", s)
	}
	plots := got.Plots()
	if len(plots) != 4 || len(plots[0].Curves) != 4 || len(plots[0].Curves[0].Points) != 4 {
		t.Errorf("plots %+v", plots)
	}
	for i := range plots {
		svg(t, &plots[i])
	}
}

func TestLossRunReportsFailures(t *testing.T) {
	c := &carrier{}
	r := newLossRun(c, fakeSender{name: "softrdma", on: c, fail: errors.New("out of order")})
	r.Impairments, r.Rounds = r.Impairments[:1], 1
	got, err := r.Do(t.Context())
	if err != nil || len(got.Missing) != 1 || !strings.Contains(got.Missing[0], "out of order") || !strings.Contains(got.Missing[0], "100µs with 0 % lost") {
		t.Errorf("%v, %q", err, got.Missing)
	}
	if len(got.Figures) != 0 {
		t.Errorf("figures of impairments that were not measured: %v", got.Figures)
	}
}

func TestLossRunRepeatsDisturbedMeasurements(t *testing.T) {
	c := &carrier{late: []float64{5e4, 100, 5e4, 5e4, 5e4, 100}}
	r := newLossRun(c, fakeSender{name: "softrdma", on: c})
	r.Impairments, r.Rounds = r.Impairments[:3], 1
	got, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The first is repeated once, the second twice, which is the maximum.
	if got.Disturbed != 3 || c.runs != 6 {
		t.Errorf("%d repeated, %d runs", got.Disturbed, c.runs)
	}
}

// An endingSender ends a run with one of its measurements.
type endingSender struct {
	fakeSender
	end  func()
	left *int // measurements before that
}

func (s endingSender) Saturate(ctx context.Context, p *Path, flows int, d, margin time.Duration) (Goodput, error) {
	if *s.left--; *s.left < 0 {
		s.end()
		return Goodput{}, ctx.Err()
	}
	return s.fakeSender.Saturate(ctx, p, flows, d, margin)
}

func TestLossRunKeepsWhatWasMeasuredBeforeItsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, left := &carrier{}, 5
	r := newLossRun(c, fakeSender{name: "softrdma", on: c}, endingSender{fakeSender{name: "TCP bbr", on: c}, cancel, &left})
	r.Impairments = r.Impairments[:4]
	got, err := r.Do(ctx)
	if !errors.Is(err, context.Canceled) || len(got.Rows) != 4 {
		t.Fatalf("%v, %d impairments", err, len(got.Rows))
	}
	for i, row := range got.Rows {
		want := 1
		if i == 0 {
			want = 2
		}
		if len(row.Rounds[0]) != want || len(row.Rounds[1]) != want || row.Goodput[1] <= 0 {
			t.Errorf("%v: expected %d rounds of each sender, found %v", row.Impairment, want, row.Rounds)
		}
	}
}

func TestLossRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &carrier{}
	if _, err := newLossRun(c, fakeSender{name: "softrdma", on: c}).Do(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestShareRunsMeasureFairnessAndQueue(t *testing.T) {
	c := &carrier{}
	r := newLossRun(c)
	r.Impairments = nil
	r.Shares = ShareRuns([]Sender{fakeSender{name: "softrdma", on: c}, fakeSender{name: "TCP cubic", missing: errors.New("no cubic")}})
	got, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := got.Shares[0]
	if s.Flows != 16 || s.Fairness != 1 || s.Bits != 16e8 || s.Peak != 1000 || s.Marked != 6 || !s.Reached() {
		t.Errorf("%+v", s)
	}
	if missing := got.Shares[1]; missing.Missing != "no cubic" || missing.Reached() {
		t.Errorf("%+v", missing)
	}
	for what, spoil := range map[string]func(*ShareRow){
		"unfair": func(s *ShareRow) { s.Fairness = .9 }, "a long queue": func(s *ShareRow) { s.Peak = 1 << 20 }, "loss": func(s *ShareRow) { s.Dropped = 1 },
	} {
		x := s
		if spoil(&x); x.Reached() {
			t.Errorf("%s reaches the gate", what)
		}
	}
}

func TestRivalRunsShowEachSender(t *testing.T) {
	c := &carrier{}
	r := newLossRun(c)
	r.Impairments = nil
	one := fakeSender{name: "softrdma", on: c}
	r.Shares = RivalRuns(one, []Sender{fakeSender{name: "TCP cubic", on: c}, fakeSender{name: "TCP bbr", missing: errors.New("no bbr")}})
	r.Shares[0].Least = 0
	got, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := got.Shares[0]
	if s.Sender != "softrdma beside TCP cubic" || s.Flows != 2 || len(s.Shares) != 2 || s.Shares[0] != 1e8 || s.Fairness != 1 || !s.Reached() {
		t.Errorf("%+v", s)
	}
	if s.Dropped = 1; !s.Reached() {
		t.Error("flows that fill a queue drop packets, which is no fault")
	}
	if s.Fairness = .89; s.Reached() {
		t.Error("unfair flows reach the gate")
	}
	if missing := got.Shares[1]; missing.Missing != "no bbr" || missing.Reached() {
		t.Errorf("%+v", missing)
	}
}
