package exporter

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/internal/reason"
)

// Alerts and the dashboard use only reasons and metrics that exist.
func TestAlertsAndDashboardUseWhatExists(t *testing.T) {
	reasons, described := make(map[string]bool), make(map[string]bool)
	for r := reason.None + 1; r < reason.Count; r++ {
		reasons[r.String()] = true
	}
	c := make(chan *prometheus.Desc, 100)
	New().Describe(c)
	close(c)
	for d := range c {
		described[regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1]] = true
	}
	for path, least := range map[string]int{"alerts.yaml": 4, "dashboard.json": 10} {
		text, err := os.ReadFile("../../packaging/observe/" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`reason=~?"([A-Z_|]+)"`).FindAllStringSubmatch(string(text), -1) {
			for name := range strings.SplitSeq(found[1], "|") {
				if !reasons[name] {
					t.Errorf("%s: no reason %s", path, name)
				}
			}
		}
		names := regexp.MustCompile(`softrdma_\w+`).FindAllString(string(text), -1)
		for _, name := range names {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !described[name] && !described[base] {
				t.Errorf("%s: no metric %s", path, name)
			}
		}
		if len(names) < least {
			t.Errorf("%s: found %d metrics", path, len(names))
		}
	}
}
