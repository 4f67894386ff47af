package metrics_test

import (
	"context"
	"io"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/metrics"
	"softrdma/verbs"
)

const size = 4096

// pair returns two connected devices after one has written n messages to the other.
func pair(t *testing.T, a, b string, n int) (from, to *verbs.Device) {
	t.Helper()
	from, to, write := writers(t, a, b)
	write(n)
	return from, to
}

// writers returns two connected devices, and what writes n messages from one to the other.
func writers(t *testing.T, a, b string) (from, to *verbs.Device, write func(n int)) {
	t.Helper()
	type end struct {
		dev *verbs.Device
		mr  *verbs.MR
		cq  *verbs.CQ
		qp  *verbs.QP
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(addr string) (e end) {
		var err error
		e.dev, err = verbs.Open(addr, verbs.Config{})
		check(err)
		t.Cleanup(func() { _ = e.dev.Close() })
		pd, err := e.dev.AllocPD()
		check(err)
		e.mr, err = pd.RegisterMemory(make([]byte, size), verbs.LocalWrite|verbs.RemoteWrite)
		check(err)
		e.cq, err = e.dev.CreateCQ(verbs.CQConfig{})
		check(err)
		e.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq})
		check(err)
		return e
	}
	x, y := open(a), open(b)
	atX, atY := x.qp.Endpoint(), y.qp.Endpoint()
	check(x.qp.Connect(atX, atY, verbs.ConnectConfig{}))
	check(y.qp.Connect(atY, atX, verbs.ConnectConfig{}))
	return x.dev, y.dev, func(n int) {
		t.Helper()
		for range n {
			check(x.qp.PostSend(verbs.SendWR{
				Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{x.mr.SGE(0, size)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey(),
			}))
			_, err := x.cq.WaitOne(context.Background())
			check(err)
		}
	}
}

// gather returns the metrics of a name.
func gather(t *testing.T, c prometheus.Collector, name string) []*dto.Metric {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

func TestMetricsAreTheBytesOfTheProgram(t *testing.T) {
	const messages = 20
	from, to := pair(t, "127.32.35.1", "127.32.35.2", messages)
	sent := gather(t, metrics.NewCollector(from), "softrdma_transmitted_payload_bytes_total")
	if n := sent[0].GetCounter().GetValue(); len(sent) != 1 || n < messages*size {
		t.Errorf("%d devices, %v bytes sent, expected at least %d", len(sent), n, messages*size)
	}
	received := gather(t, metrics.NewCollector(to), "softrdma_received_payload_bytes_total")
	if n := received[0].GetCounter().GetValue(); len(received) != 1 || n != messages*size {
		t.Errorf("%d devices, %v bytes received, expected %d", len(received), n, messages*size)
	}
}

func TestMeasurementsAreNativeHistograms(t *testing.T) {
	from, _, write := writers(t, "127.32.35.3", "127.32.35.4")
	c := metrics.NewCollector(from)
	gather(t, c, "softrdma_objects") // latencies are taken from then on
	write(20)
	for _, name := range []string{"softrdma_round_trip_seconds", "softrdma_congestion_window_bytes", "softrdma_completion_latency_seconds"} {
		h := gather(t, c, name)[0].GetHistogram()
		if h.GetSampleCount() == 0 || h.GetSampleSum() <= 0 || len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) == 0 {
			t.Errorf("%s: found %v", name, h)
		}
	}
}

func TestClosedDeviceHasNoMetrics(t *testing.T) {
	from, to := pair(t, "127.32.35.5", "127.32.35.6", 1)
	c := metrics.NewCollector(from, to)
	if n := len(gather(t, c, "softrdma_device_info")); n != 2 {
		t.Errorf("%d devices, expected 2", n)
	}
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(gather(t, c, "softrdma_device_info")); n != 1 {
		t.Errorf("%d devices after one was closed, expected 1", n)
	}
}

// promtool judges the names, the units and the help texts.
func TestPromtoolFindsNothing(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: no promtool (Debian: prometheus)")
	}
	pair(t, "127.32.35.7", "127.32.35.8", 1)
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil || !strings.Contains(string(text), "softrdma_round_trip_seconds_count{") {
		t.Fatalf("%v\n%s", err, text)
	}
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(string(text))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"check", "rules", "../packaging/observe/alerts.yaml"},
		{"test", "rules", "../packaging/observe/alerts_test.yaml"},
	} {
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
