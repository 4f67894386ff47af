package kubernetes

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// serviceMonitor has the fields of the Prometheus Operator's type that the chart uses.
type serviceMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// monitor returns the documents of the monitor's template.
func monitor(t *testing.T, values map[string]any) []string {
	t.Helper()
	chart, err := loader.LoadDir("chart")
	if err != nil {
		t.Fatal(err)
	}
	v, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "softrdma", Namespace: "softrdma"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, v)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(files["softrdma/templates/service-monitor.yaml"])
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n---\n")
}

func TestChartHasAMonitorOnlyIfAsked(t *testing.T) {
	if all := monitor(t, nil); all != nil {
		t.Errorf("found %q by default", all)
	}
	all := monitor(t, map[string]any{"serviceMonitor": map[string]any{
		"enabled": true, "namespaces": []any{"jobs", "more"}, "labels": map[string]any{"release": "prometheus"},
	}})
	if len(all) != 3 {
		t.Fatalf("expected two services and a monitor, found %q", all)
	}
	var m serviceMonitor
	if err := yaml.UnmarshalStrict([]byte(all[2]), &m); err != nil {
		t.Fatal(err)
	}
	for i, namespace := range []string{"jobs", "more"} {
		var s core.Service
		if err := yaml.UnmarshalStrict([]byte(all[i]), &s); err != nil {
			t.Fatal(err)
		}
		if s.Namespace != namespace || s.Namespace != m.Spec.NamespaceSelector.MatchNames[i] || s.Spec.Selector["softrdma/metrics"] != "true" || s.Spec.Ports[0].Port != 9435 {
			t.Errorf("unexpected service %+v", s)
		}
		for name, value := range m.Spec.Selector.MatchLabels {
			if s.Labels[name] != value {
				t.Errorf("the monitor wants label %s=%s, the service has %v", name, value, s.Labels)
			}
		}
		if m.Spec.Endpoints[0].Port != s.Spec.Ports[0].Name {
			t.Errorf("the monitor wants port %s, the service has %+v", m.Spec.Endpoints[0].Port, s.Spec.Ports)
		}
	}
	if m.Kind != "ServiceMonitor" || m.Labels["release"] != "prometheus" || m.Spec.Endpoints[0].Path != "/metrics" || m.Spec.Endpoints[0].Interval != "15s" {
		t.Errorf("unexpected monitor %+v", m)
	}
}
