// Package kubernetes has the manifests of Kubernetes. Its tests compare them with the types of
// Kubernetes, and render the chart as helm does.
package kubernetes

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	mpi "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write device-plugin.yaml")

// manifestHead precedes the chart with its defaults in device-plugin.yaml.
const manifestHead = `# The chart with its defaults. "go test . -update" in this directory writes this file.
apiVersion: v1
kind: Namespace
metadata:
  name: softrdma
  labels:
    # The pods of the plug-in mount directories of the node.
    pod-security.kubernetes.io/enforce: privileged
---
`

// objects decodes the documents of a manifest. Unknown and repeated fields are errors.
func objects(t *testing.T, manifest []byte) (all []any) {
	t.Helper()
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		known := map[string]any{
			"v1 Namespace": &core.Namespace{}, "v1 Pod": &core.Pod{}, "v1 Service": &core.Service{}, "v1 ServiceAccount": &core.ServiceAccount{},
			"apps/v1 DaemonSet": &apps.DaemonSet{}, "networking.k8s.io/v1 NetworkPolicy": &network.NetworkPolicy{},
			"kubeflow.org/v2beta1 MPIJob": &mpi.MPIJob{},
		}
		object := known[kind.APIVersion+" "+kind.Kind]
		if object == nil {
			t.Fatalf("unexpected kind %+v", kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%+v: %v", kind, err)
		}
		all = append(all, object)
	}
	return all
}

// render renders the chart with values that differ from its defaults.
func render(t *testing.T, values map[string]any) ([]byte, error) {
	t.Helper()
	chart, err := loader.LoadDir("chart")
	if err != nil {
		t.Fatal(err)
	}
	v, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "softrdma", Namespace: "softrdma"}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, v)
	return []byte(files["softrdma/templates/device-plugin.yaml"]), err
}

// rendered returns the DaemonSet of the chart with values.
func rendered(t *testing.T, values map[string]any) *apps.DaemonSet {
	t.Helper()
	manifest, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, manifest)
	if len(all) != 3 {
		t.Fatalf("expected an account, a set and a policy, found %d objects", len(all))
	}
	return all[1].(*apps.DaemonSet)
}

func TestManifestsHaveTheFieldsOfKubernetes(t *testing.T) {
	examples, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(examples) < 3 {
		t.Fatalf("found %q, %v", examples, err)
	}
	for _, path := range append(examples, "pod.yaml", "device-plugin.yaml") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		objects(t, b)
	}
}

func TestManifestIsTheChartWithItsDefaults(t *testing.T) {
	manifest, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	manifest = append([]byte(manifestHead), manifest...)
	if *update {
		if err := os.WriteFile("device-plugin.yaml", manifest, 0o644); err != nil { //nolint:gosec // a manifest is public
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile("device-plugin.yaml"); err != nil || !bytes.Equal(b, manifest) {
		t.Errorf("device-plugin.yaml differs from the chart (%v): run go test -update", err)
	}
}

// variants are values of the chart.
var variants = []map[string]any{
	nil,
	{"inject": "mounts", "resources": []any{"rdma/hca_shared_devices_a=500", "softrdma/rdma"}},
	{"shared": true, "interface": "eth0", "seLinuxOptions": map[string]any{"type": "spc_t"}},
	{"kubeletDir": "/var/snap/kubelet", "nodeSelector": map[string]any{"rdma": "yes"}, "tolerations": []any{}},
}

func TestDevicePluginHasOnlyTheRightsThatItNeeds(t *testing.T) {
	for _, values := range variants {
		set := rendered(t, values)
		pod := &set.Spec.Template.Spec
		c := pod.Containers[0]
		s := c.SecurityContext
		if *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Add) > 0 || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("%v: unexpected rights %+v", values, s)
		}
		if pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%v: unexpected rights %+v", values, pod.SecurityContext)
		}
		if *pod.AutomountServiceAccountToken || pod.HostPID || pod.HostIPC || pod.HostNetwork != (values["interface"] != nil) || len(pod.InitContainers) > 0 || len(pod.Containers) != 1 {
			t.Errorf("%v: unexpected pod %+v", values, pod)
		}
		expected := map[string]string{"kubelet": "/var/lib/kubelet/device-plugins", "files": "/var/lib/softrdma", "cdi": "/var/run/cdi"}
		if values["kubeletDir"] != nil {
			expected["kubelet"] = "/var/snap/kubelet/device-plugins"
		}
		if values["inject"] == "mounts" {
			delete(expected, "cdi")
		}
		for _, v := range pod.Volumes {
			if v.HostPath == nil || v.HostPath.Path != expected[v.Name] {
				t.Errorf("%v: unexpected volume %+v", values, v)
			}
			delete(expected, v.Name)
		}
		if len(expected) > 0 || len(c.VolumeMounts) != len(pod.Volumes) || len(c.VolumeDevices) > 0 {
			t.Errorf("%v: unexpected volumes %+v, missing %v", values, pod.Volumes, expected)
		}
	}
}

func TestChartPassesItsValuesToTheCommand(t *testing.T) {
	for i, expected := range []string{
		"kubernetes device-plugin --resource=softrdma/rdma --inject=cdi --output=/var/run/cdi",
		"kubernetes device-plugin --resource=rdma/hca_shared_devices_a=500 --resource=softrdma/rdma --inject=mounts",
		"kubernetes device-plugin --resource=softrdma/rdma --inject=cdi --output=/var/run/cdi --shared --interface=eth0",
		"kubernetes device-plugin --resource=softrdma/rdma --inject=cdi --output=/var/run/cdi",
	} {
		if args := strings.Join(rendered(t, variants[i]).Spec.Template.Spec.Containers[0].Args, " "); args != expected {
			t.Errorf("%v: expected %s, found %s", variants[i], expected, args)
		}
	}
}

func TestChartRefusesValuesThatItDoesNotHave(t *testing.T) {
	for _, values := range []map[string]any{
		{"inject": "device"}, {"resource": "softrdma/rdma"}, {"resources": []any{}}, {"resources": []any{"rdma"}}, {"shared": "maybe"}, {"kubeletDir": "kubelet"},
	} {
		if _, err := render(t, values); err == nil {
			t.Errorf("%v: expected an error", values)
		}
	}
}

// Images and pods of the examples know of softrdma by the resource alone.
func TestExamplesAskForAResourceAndNoRights(t *testing.T) {
	for _, path := range []string{"examples/ib-write-bw.yaml", "examples/mpijob.yaml"} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var pods []core.PodSpec
		for _, o := range objects(t, b) {
			switch o := o.(type) {
			case *core.Pod:
				pods = append(pods, o.Spec)
			case *mpi.MPIJob:
				for _, r := range o.Spec.MPIReplicaSpecs {
					pods = append(pods, r.Template.Spec)
				}
			}
		}
		if len(pods) != 2 {
			t.Errorf("%s: expected two pods, found %d", path, len(pods))
		}
		for _, p := range pods {
			c := p.Containers[0]
			if n := c.Resources.Limits["softrdma/rdma"]; n.Value() != 1 {
				t.Errorf("%s: unexpected resources %v", path, c.Resources)
			}
			if len(p.Volumes)+len(c.Env)+len(c.VolumeMounts) > 0 || p.HostNetwork || c.SecurityContext != nil && (c.SecurityContext.Privileged != nil || c.SecurityContext.Capabilities != nil) {
				t.Errorf("%s: unexpected pod %+v", path, p)
			}
		}
	}
}
