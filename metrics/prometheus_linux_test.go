package metrics_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/metrics"
)

// A Prometheus that scrapes the handler has the bytes of the program, and the histogram of round trips as a
// native one.
func TestPrometheusReadsTheMetrics(t *testing.T) {
	testenv.Programs(t, "prometheus")
	const messages = 20
	from, to := pair(t, "127.32.35.11", "127.32.35.12", messages)
	target := httptest.NewServer(metrics.Handler(from, to))
	defer target.Close()
	server := startPrometheus(t, strings.TrimPrefix(target.URL, "http://"), "--enable-feature=native-histograms")

	for query, want := range map[string]float64{
		`softrdma_received_payload_bytes_total{address="127.32.35.12"}`: messages * size,
		`sum(softrdma_objects{kind="queue_pair"})`:                      2,
		`count(softrdma_device_info)`:                                   2,
		// A function that knows native histograms alone.
		`histogram_count(softrdma_round_trip_seconds{address="127.32.35.11"}) > bool 0`: 1,
	} {
		var got float64
		for end := time.Now().Add(time.Minute); got != want && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			got = ask(t, server, query)
		}
		if got != want {
			t.Errorf("%s: %v, expected %v", query, got, want)
		}
	}
}

// startPrometheus starts a server with some arguments that scrapes a target, and returns its URL.
func startPrometheus(t *testing.T, target string, args ...string) string {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "tcp"))
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: softrdma\n  scrape_interval: 1s\n  static_configs:\n  - targets: [%q]\n", target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("prometheus", append(args, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=error")...)
	var log strings.Builder
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "http://" + addr
}

// ask returns the value of an expression, -1 without one.
func ask(t *testing.T, server, query string) float64 {
	t.Helper()
	r, err := http.Get(server + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return -1 // it starts
	}
	defer r.Body.Close()
	var a struct {
		Status string
		Data   struct {
			Result []struct{ Value [2]any }
		}
		Error string
	}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		return -1
	}
	if a.Status == "error" {
		t.Fatalf("%s: %s", query, a.Error)
	}
	if len(a.Data.Result) != 1 {
		return -1
	}
	text, _ := a.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1
	}
	return v
}
