package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A pod has the fields of Kubernetes' Pod (v1) that the example uses. Parsing refuses
// other fields, to detect misspelled ones.
type pod struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		ShareProcessNamespace bool            `yaml:"shareProcessNamespace"`
		SecurityContext       securityContext `yaml:"securityContext"`
		Volumes               []struct {
			Name     string
			EmptyDir *struct{} `yaml:"emptyDir"`
		}
		InitContainers []container `yaml:"initContainers"`
		Containers     []container
		RestartPolicy  string `yaml:"restartPolicy"`
	}
}

type container struct {
	Name, Image     string
	ImagePullPolicy string `yaml:"imagePullPolicy"`
	RestartPolicy   string `yaml:"restartPolicy"`
	Args            []string
	VolumeMounts    []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
	StartupProbe struct {
		Exec          struct{ Command []string }
		PeriodSeconds int `yaml:"periodSeconds"`
	} `yaml:"startupProbe"`
	SecurityContext securityContext `yaml:"securityContext"`
}

type securityContext struct {
	RunAsNonRoot             bool   `yaml:"runAsNonRoot"`
	RunAsUser                uint32 `yaml:"runAsUser"`
	RunAsGroup               uint32 `yaml:"runAsGroup"`
	FSGroup                  uint32 `yaml:"fsGroup"`
	AllowPrivilegeEscalation bool   `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool   `yaml:"readOnlyRootFilesystem"`
	Capabilities             struct{ Drop []string }
	SeccompProfile           struct{ Type string } `yaml:"seccompProfile"`
}

func examplePod(t *testing.T) (p pod) {
	t.Helper()
	b, err := os.ReadFile("../kubernetes/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPodArgumentsAreValid(t *testing.T) {
	p := examplePod(t)
	if p.APIVersion != "v1" || p.Kind != "Pod" || !p.Spec.ShareProcessNamespace || len(p.Spec.Containers) == 0 || len(p.Spec.InitContainers) == 0 {
		t.Fatalf("unexpected pod %+v", p)
	}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		understands(t, c.Args...)
		if c.Image != "softrdma" || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) || c.SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("unexpected container %+v", c)
		}
		for _, m := range c.VolumeMounts {
			if m.Name != p.Spec.Volumes[0].Name || !strings.Contains(strings.Join(c.Args, " "), m.MountPath+"/socket") {
				t.Errorf("%s: the socket is not in its volume: %+v", c.Name, c)
			}
		}
		if len(c.VolumeMounts) != 1 {
			t.Errorf("%s has no volume for the socket", c.Name)
		}
	}
	if probe := p.Spec.InitContainers[0].StartupProbe.Exec.Command; len(probe) < 2 || probe[0] != "softrdma" {
		t.Errorf("unexpected probe %q", probe)
	} else {
		understands(t, probe[1:slices.Index(probe, "--")]...)
	}
	if p.Spec.InitContainers[0].RestartPolicy != "Always" {
		t.Error("the daemon is no sidecar")
	}
}
