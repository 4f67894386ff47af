package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// schemas are those of the API server and of the MPI operator, by version and kind of an object. An object may
// have no other fields than its schema.
type schemas map[string]*jsonschema.Schema

// apiGroups are the documents of the API server that the manifests need.
var apiGroups = []string{"api__v1", "apis__apps__v1", "apis__networking.k8s.io__v1"}

// readSchemas reads the OpenAPI documents of the Kubernetes of go.mod, and the definition of MPIJobs.
func readSchemas(t *testing.T) schemas {
	t.Helper()
	all := schemas{}
	root := downloaded(t, "k8s.io/kubernetes@"+strings.Replace(required(t, "k8s.io/api"), "v0.", "v1.", 1))
	for _, group := range apiGroups {
		b, err := os.ReadFile(filepath.Join(root, "api", "openapi-spec", "v3", group+"_openapi.json"))
		if err != nil {
			t.Fatal(err)
		}
		all.add(t, group, b)
	}
	const operator = "github.com/kubeflow/mpi-operator"
	b, err := os.ReadFile(filepath.Join(downloaded(t, operator+"@"+required(t, operator)), "manifests", "base", "kubeflow.org_mpijobs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all.addDefinition(t, b)
	return all
}

// add adds the kinds of an OpenAPI document.
func (s schemas) add(t *testing.T, name string, document []byte) {
	t.Helper()
	var named struct {
		Components struct {
			Schemas map[string]struct {
				Kinds []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
			}
		}
	}
	if err := json.Unmarshal(document, &named); err != nil {
		t.Fatal(err)
	}
	c := compiler(t, name, document)
	for schema, kinds := range named.Components.Schemas {
		if len(kinds.Kinds) != 1 { // of all groups, such as DeleteOptions
			continue
		}
		k := kinds.Kinds[0]
		s.compile(t, c, name+"#/components/schemas/"+schema, strings.TrimPrefix(k.Group+"/"+k.Version, "/")+" "+k.Kind)
	}
}

// addDefinition adds the kind of a CustomResourceDefinition with one version.
func (s schemas) addDefinition(t *testing.T, manifest []byte) {
	t.Helper()
	document, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct{ Name string }
		}
	}
	if err := json.Unmarshal(document, &d); err != nil || len(d.Spec.Versions) != 1 {
		t.Fatalf("%v: %+v", err, d)
	}
	kind := d.Spec.Group + "/" + d.Spec.Versions[0].Name + " " + d.Spec.Names.Kind
	s.compile(t, compiler(t, d.Spec.Names.Kind, document), d.Spec.Names.Kind+"#/spec/versions/0/schema/openAPIV3Schema", kind)
}

func compiler(t *testing.T, name string, document []byte) *jsonschema.Compiler {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	closeObjects(parsed)
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, parsed); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s schemas) compile(t *testing.T, c *jsonschema.Compiler, at, kind string) {
	t.Helper()
	compiled, err := c.Compile(at)
	if err != nil {
		t.Fatal(err)
	}
	s[kind] = compiled
}

// closeObjects forbids the fields that a schema does not name, as kubectl does by default.
func closeObjects(node any) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			closeObjects(v)
		}
	case map[string]any:
		for _, v := range n {
			closeObjects(v)
		}
		if _, object := n["properties"].(map[string]any); object && n["additionalProperties"] == nil && n["x-kubernetes-preserve-unknown-fields"] == nil {
			n["additionalProperties"] = false
		}
	}
}

// validate returns what is wrong with the objects of a manifest, and how many there are.
func (s schemas) validate(manifest []byte) (n int, err error) {
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		b, err := yaml.YAMLToJSON(document)
		if err != nil {
			return n, err
		}
		var kind struct{ APIVersion, Kind string }
		if err := json.Unmarshal(b, &kind); err != nil {
			return n, err
		}
		schema := s[kind.APIVersion+" "+kind.Kind]
		if schema == nil {
			return n, fmt.Errorf("no schema for %+v", kind)
		}
		object, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return n, err
		}
		if err := schema.Validate(object); err != nil {
			return n, fmt.Errorf("%+v: %w", kind, err)
		}
		n++
	}
	return n, nil
}

// required returns the version of a module in go.mod.
func required(t *testing.T, module string) string {
	t.Helper()
	return goCommand(t, "list", "-m", "-f", "{{.Version}}", module)
}

// downloaded returns the directory of a module, which Go downloads once. The packages of the command do not
// need it.
func downloaded(t *testing.T, module string) string {
	t.Helper()
	var m struct{ Dir string }
	if err := json.Unmarshal([]byte(goCommand(t, "mod", "download", "-json", module)), &m); err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	if os.Getenv("CI") == "true" || args[0] != "mod" {
		t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, out)
	}
	t.Skipf("SKIPPED: this machine lacks the network: go %s: %v: %s", strings.Join(args, " "), err, out)
	return ""
}

func TestManifestsFollowTheSchemasOfKubernetes(t *testing.T) {
	s := readSchemas(t)
	check := func(name string, manifest []byte, err error) {
		if err == nil {
			_, err = s.validate(manifest)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	examples, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(examples) < 3 {
		t.Fatalf("found %q, %v", examples, err)
	}
	for _, path := range append(examples, "pod.yaml", "device-plugin.yaml") {
		b, err := os.ReadFile(path)
		check(path, b, err)
	}
	for _, values := range variants {
		b, err := render(t, values)
		check(fmt.Sprint(values), b, err)
	}
}

func TestSchemasRefuseWrongManifests(t *testing.T) {
	s := readSchemas(t)
	for _, c := range []struct{ path, from, to string }{
		{"device-plugin.yaml", "  selector:\n    matchLabels:\n      app.kubernetes.io/name: softrdma-device-plugin\n", ""}, // is required
		{"device-plugin.yaml", "readOnlyRootFilesystem: true", `readOnlyRootFilesystem: "true"`},
		{"pod.yaml", "restartPolicy: Always", "restart: Always"},
		{"examples/network-policy.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: Ingress"},
		{"examples/mpijob.yaml", "slotsPerWorker: 1", "slotsPerWorker: one"},
		{"examples/mpijob.yaml", "sshAuthMountPath: /home/mpiuser/.ssh", "mpiImplementation: LAM"},
	} {
		b, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		wrong := bytes.Replace(b, []byte(c.from), []byte(c.to), 1)
		if _, err := s.validate(wrong); bytes.Equal(wrong, b) || err == nil {
			t.Errorf("%s: expected an error for %q instead of %q", c.path, c.to, c.from)
		}
	}
}
