package metrics_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/metrics"
)

// The panels of the dashboard show what a Prometheus has scraped, whether it takes native histograms or not.
func TestDashboardShowsWhatPrometheusHas(t *testing.T) {
	testenv.Programs(t, "prometheus")
	text, err := os.ReadFile("../packaging/observe/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) < 9 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	from, to, write := writers(t, "127.32.35.21", "127.32.35.22")
	target := httptest.NewServer(metrics.Handler(from, to))
	defer target.Close()
	at := strings.TrimPrefix(target.URL, "http://")
	servers := map[string]string{"native": startPrometheus(t, at, "--enable-feature=native-histograms"), "classic": startPrometheus(t, at)}
	filled := strings.NewReplacer("$instance", ".*", "$device", ".*", "$__rate_interval", "1m")
	for _, p := range dashboard.Panels {
		busy := strings.Contains(p.Title, "%") || p.Title == "Throughput" || p.Title == "Mean window of busy connections"
		for _, x := range p.Targets {
			query := "max(" + filled.Replace(x.Expr) + ")"
			for kind, server := range servers {
				got := ask(t, server, query)
				for end := time.Now().Add(time.Minute); busy && !(got > 0) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // NaN is not
					write(5)
					got = ask(t, server, query)
				}
				if busy && !(got > 0) {
					t.Errorf("%s, with %s histograms: %s is %v", p.Title, kind, query, got)
				}
			}
		}
	}
}
