package top

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/control"
	"softrdma/verbs"
)

// run runs the command and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SilenceUsage = true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// open opens a device of this process, which answers in a directory of the test.
func open(t *testing.T, name string) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open(name, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// queuePair creates a queue pair in state INIT.
func queuePair(t *testing.T, dev *verbs.Device) *verbs.QP {
	t.Helper()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	if err := qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	return qp
}

func TestOnceShowsTheProgramsOfTheUser(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	if out, err := run(t, "--once", "--interval", "100ms"); err != nil || !strings.Contains(out, "no device of a program of this user") {
		t.Errorf("%s, %v", out, err)
	}
	name := clitest.LoopbackDevice(t)
	qp := queuePair(t, open(t, name))
	out, err := run(t, "--once", "--interval", "100ms")
	for _, want := range []string{name + "  top.test", "TX B/s", "INIT", qpn(qp.Number())} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s, %v", want, out, err)
		}
	}
	if out, err = run(t, "--once", "--json", "--interval", "100ms"); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%s, %v", out, err)
	}
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Processes) != 1 || r.Seconds < 0.1 {
		t.Fatalf("%s, %v", out, err)
	}
	if d := r.Processes[0].Devices[0]; d.Name != name || d.Rates == nil || len(d.QPs) != 1 || d.QPs[0].State != "INIT" {
		t.Errorf("%+v", d)
	}
	if out, err = run(t, "--once", "--filter", "server", "--interval", "100ms"); err != nil || strings.Contains(out, name) {
		t.Errorf("%s, %v", out, err)
	}
}

func TestWrongCallsSayWhatWasExpected(t *testing.T) {
	for want, args := range map[string][]string{
		"--interval: expected 100ms or longer, found 1ms": {"--interval", "1ms"},
		"--follow": {"--once", "--follow"},
	} {
		if out, err := run(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %s, %v", args, out, err)
		}
	}
	t.Setenv("SOFTRDMA_CONTROL_DIR", "off")
	if _, err := run(t, "--once"); err == nil || !strings.Contains(err.Error(), "SOFTRDMA_CONTROL_DIR is off") {
		t.Error(err)
	}
}

// A printed is what a command has printed so far.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func TestFollowPrintsWhatHappens(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	for _, x := range []struct {
		c    command
		want []string // $D stands for the device
	}{
		{command{interval: leastInterval}, []string{"  top.test (", ") $D  QP 0x", "  state INIT -> ERR\n"}},
		{command{interval: leastInterval, asJSON: true}, []string{`"program":"top.test","device":"$D",`, `"kind":"state"`, `"from":"INIT","to":"ERR"}`}},
	} {
		name := clitest.LoopbackDevice(t)
		var out, notes printed
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- x.c.runFollow(ctx, &out, &notes) }()
		for !strings.Contains(notes.String(), "waits for one") {
			time.Sleep(time.Millisecond)
		}
		dev := open(t, name)
		for !strings.Contains(out.String(), "ERR") { // until the command follows the device
			if err := queuePair(t, dev).ToErr(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, want := range x.want {
			want = strings.ReplaceAll(want, "$D", name)
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in %s", want, out.String())
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEventsAreLinesOfText(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 5e6, time.Local)
	for want, e := range map[string]control.Event{
		"7 events lost":                                  {Kind: "lost", Lost: 7},
		"QP 0x000011  refused RNR: a sentence":           {QPN: 17, Kind: "refused", Count: 1, Reason: "RNR", Text: "a sentence"},
		"QP 0x000011  refused 3 times, RNR: a sentence":  {QPN: 17, Kind: "refused", Count: 3, Reason: "RNR", Text: "a sentence"},
		"QP 0x000011  state RTS -> ERR, RNR: a sentence": {QPN: 17, Kind: "state", From: "RTS", To: "ERR", Reason: "RNR", Text: "a sentence"},
		"QP 0x000011  completed work request 0x9 with IBV_WC_RETRY_EXC_ERR, RNR: a sentence; the peer says KEY: another sentence": {QPN: 17, Kind: "completed", WRID: 9, Status: "IBV_WC_RETRY_EXC_ERR", Reason: "RNR", Text: "a sentence", PeerReason: "KEY", PeerText: "another sentence"},
	} {
		e.Time = at
		x := event{4711, "server", "127.0.0.1", e}
		if got := x.line(); got != "12:00:00.005  server (4711) 127.0.0.1  "+want {
			t.Errorf("found %q, expected %q", got, want)
		}
	}
}
