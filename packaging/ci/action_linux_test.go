package ci

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// An action is what a composite action's file may say.
type action struct {
	Name, Description string
	Branding          struct{ Icon, Color string }
	Inputs            map[string]struct{ Description, Default string }
	Outputs           map[string]struct{ Description, Value string }
	Runs              struct {
		Using string
		Steps []step
	}
}

type step struct {
	ID, If, Uses, Shell, Run string
	Env, With                map[string]string
}

// A workflow is as much of a workflow's file as docs/ci.md shows.
type workflow struct {
	On   string
	Jobs map[string]struct {
		RunsOn string `yaml:"runs-on"`
		Steps  []step
	}
}

// parse reads a file without unknown keys.
func parse(t *testing.T, text []byte, into any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func readAction(t *testing.T) *action {
	t.Helper()
	b, err := os.ReadFile(repository + "/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	a := &action{}
	parse(t, b, a)
	if a.Runs.Using != "composite" || len(a.Runs.Steps) < 4 {
		t.Fatalf("found %+v", a.Runs)
	}
	return a
}

var expression = regexp.MustCompile(`\$\{\{ *([\w.-]+) *\}\}`)

// A runner runs the steps of the action, as GitHub's runner does with jobs.
type runner struct {
	t       *testing.T
	action  *action
	home    string            // files of the runner and its caches
	inputs  map[string]string // of the action
	context map[string]string // values of expressions
	env     map[string]string // of later steps
	path    []string
	ran     []string // what was run or used
}

func newRunner(t *testing.T, home string, inputs map[string]string) *runner {
	t.Helper()
	sources, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, action: readAction(t), home: home, inputs: inputs, env: map[string]string{"XDG_CACHE_HOME": home + "/user-cache"}}
	r.context = map[string]string{"github.action_path": sources, "runner.tool_cache": home + "/tools"}
	for name, in := range r.action.Inputs {
		value, given := inputs[name]
		if !given {
			value = in.Default
		}
		r.context["inputs."+name] = value
	}
	return r
}

func (r *runner) expand(text string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		name := expression.FindStringSubmatch(e)[1]
		value, known := r.context[name]
		if !known {
			r.t.Errorf("unknown: %s", e)
		}
		return value
	})
}

// wanted evaluates comparisons with literals that are joined by &&.
func (r *runner) wanted(condition string) bool {
	for part := range strings.SplitSeq(condition, "&&") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		f := strings.Fields(part)
		if len(f) != 3 || f[1] != "==" && f[1] != "!=" {
			r.t.Fatalf("the tests do not understand %q", condition)
		}
		if (r.context[f[0]] == strings.Trim(f[2], "'")) != (f[1] == "==") {
			return false
		}
	}
	return true
}

// steps runs all steps of the action. It returns what a step printed, if that failed.
func (r *runner) steps() (string, error) {
	for _, s := range r.action.Runs.Steps {
		if !r.wanted(s.If) {
			continue
		}
		if name, _, _ := strings.Cut(s.Uses, "@"); name != "" {
			r.ran = append(r.ran, name)
			if name == "actions/cache" {
				// Files of the last job are still at their place.
				if _, err := os.Stat(filepath.Join(r.expand(s.With["path"]), "softrdma")); err == nil {
					r.context["steps."+s.ID+".outputs.cache-hit"] = "true"
				}
			}
			continue
		}
		if s.Shell != "bash" || strings.Contains(s.Run, "${{") {
			r.t.Errorf("a step's script gets values by variables, found %q in %s", s.Run, s.Shell)
		}
		r.ran = append(r.ran, s.Run)
		env := map[string]string{}
		for name, value := range s.Env {
			env[name] = r.expand(value)
		}
		if out, err := r.run(s.Run, s.ID, env); err != nil {
			return out, err
		}
	}
	return "", nil
}

// run runs the script of a step, and reads what it leaves for later ones.
func (r *runner) run(script, id string, env map[string]string) (string, error) {
	r.t.Helper()
	for name, value := range r.env {
		env[name] = value
	}
	for _, name := range []string{"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT"} {
		env[name] = filepath.Join(r.home, name)
		if err := os.WriteFile(env[name], nil, 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	env["PATH"] = strings.Join(append(r.path, os.Getenv("PATH")), ":")
	out, err := shell(r.t, r.home, script, env)
	r.lines("GITHUB_PATH", func(line string) { r.path = append([]string{line}, r.path...) })
	r.lines("GITHUB_ENV", func(line string) {
		name, value, _ := strings.Cut(line, "=")
		r.env[name] = value
	})
	r.lines("GITHUB_OUTPUT", func(line string) {
		name, value, _ := strings.Cut(line, "=")
		r.context["steps."+id+".outputs."+name] = value
	})
	return out, err
}

func (r *runner) lines(name string, do func(string)) {
	b, err := os.ReadFile(filepath.Join(r.home, name))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		do(strings.TrimSuffix(line, "\n"))
	}
}

// archive writes an archive as make dist does, with its program.
func archive(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "softrdma-1.0.0-linux-amd64.tar.gz")
	if out, err := shell(t, filepath.Dir(command(t)), fmt.Sprintf("tar -czf %s --transform 's,^,softrdma-1.0.0-linux-amd64/,' softrdma", name), nil); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return name
}

// devices is a later step's script.
const devices = "command -v softrdma; ibv_devinfo"

func TestActionGivesLaterStepsADevice(t *testing.T) {
	home := t.TempDir()
	inputs := map[string]string{"archive": archive(t)}
	for _, job := range []struct {
		name   string
		builds bool
	}{{"first", true}, {"with a cache", false}} {
		r := newRunner(t, home, inputs)
		if out, err := r.steps(); err != nil {
			t.Fatalf("%s: %v\n%s", job.name, err, out)
		}
		ran := strings.Join(r.ran, "\n")
		if strings.Contains(ran, "install.sh") != job.builds || strings.Contains(ran, "setup-go") {
			t.Errorf("%s: ran\n%s", job.name, ran)
		}
		out, err := r.run(devices, "", map[string]string{})
		if err != nil || !strings.Contains(out, "PORT_ACTIVE") || !strings.Contains(out, r.context["steps.key.outputs.path"]) {
			t.Errorf("%s: %v\n%s", job.name, err, out)
		}
	}
}

func TestActionMakesTheDevicesItIsAskedFor(t *testing.T) {
	r := newRunner(t, t.TempDir(), map[string]string{"archive": archive(t), "device": "127.0.0.1 127.0.0.2", "flags": "--protocol iwarp"})
	if out, err := r.steps(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := r.run("ibv_devices", "", map[string]string{}); err != nil || !strings.Contains(out, "siw0") || !strings.Contains(out, "siw1") {
		t.Errorf("%v\n%s", err, out)
	}
}

// noCurl returns a directory for PATH with a curl that fails.
func noCurl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "curl"), []byte("#!/bin/sh\necho curl was called >&2; exit 1\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}

func TestActionCopiesAnArchiveOfAFileAddress(t *testing.T) {
	r := newRunner(t, t.TempDir(), map[string]string{"archive": "file://" + archive(t)})
	r.path = []string{noCurl(t)}
	if out, err := r.steps(); err != nil || r.context["steps.key.outputs.key"] == "" {
		t.Fatalf("key %q: %v\n%s", r.context["steps.key.outputs.key"], err, out)
	}
	if out, err := r.run(devices, "", map[string]string{}); err != nil || !strings.Contains(out, "PORT_ACTIVE") {
		t.Errorf("%v\n%s", err, out)
	}
}

// pinned matches an action of others by commit, with its release.
var pinned = regexp.MustCompile(`uses: actions/[a-z-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)

func TestActionsOfOthersAreUsedByCommit(t *testing.T) {
	for name, own := range map[string]string{"/action.yml": "", "/docs/ci.md": "uses: OWNER/softrdma@COMMIT"} {
		b, err := os.ReadFile(repository + name)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(string(b)) {
			_, use, uses := strings.Cut(strings.TrimSpace(line), "uses: ")
			if !uses || "uses: "+use == own {
				continue
			}
			if found++; !pinned.MatchString("uses: " + use) {
				t.Errorf("%s: expected a commit of 40 digits and # vX.Y.Z, found %s", name, use)
			}
		}
		if found == 0 {
			t.Errorf("%s uses no action", name)
		}
	}
}

func TestActionRefusesAnArchiveWithAnotherChecksum(t *testing.T) {
	r := newRunner(t, t.TempDir(), map[string]string{"archive": archive(t), "sha256": strings.Repeat("0", 64)})
	if out, err := r.steps(); err == nil || !strings.Contains(out, "expected SHA-256 000") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestActionsKeyIsThatOfItsSources(t *testing.T) {
	key := func(edit string) string {
		dir := t.TempDir()
		script := fmt.Sprintf("cp -r %s/packaging . && mkdir x && echo package x > x/x.go && echo TEXT > x/x.s\n%s\nCACHE=/c packaging/ci/key.sh", mustAbs(t, repository), edit)
		out, err := shell(t, dir, script, nil)
		if err != nil || !strings.Contains(out, "path=/c/softrdma/softrdma-Linux-") {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	first := key("")
	if again := key("touch x/x.go; echo text > README"); again != first {
		t.Errorf("expected %s, found %s", first, again)
	}
	for _, edit := range []string{"echo package y > x/x.go", "echo MOVQ > x/x.s", "echo >> packaging/ci/install.sh"} {
		if other := key(edit); other == first {
			t.Errorf("%s: the same key for other sources: %s", edit, other)
		}
	}
}

func TestActionsKeyIsThatOfItsArchive(t *testing.T) {
	key := func(script string) string {
		out, err := shell(t, t.TempDir(), script+"; CACHE=/c "+mustAbs(t, repository)+"/packaging/ci/key.sh", nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	if key("echo 1 > a; export ARCHIVE=a") == key("echo 2 > a; export ARCHIVE=a") {
		t.Error("the same key for other contents at the same path")
	}
	latest := "export ARCHIVE=https://host/latest.tar.gz"
	if out := key(latest); !strings.HasPrefix(out, "key=\n") {
		t.Errorf("expected no key for an address without a checksum, found %s", out)
	}
	if out := key(latest + " SHA256=00"); !strings.HasPrefix(out, "key=softrdma-") {
		t.Errorf("expected a key for an address with a checksum, found %s", out)
	}
}

func TestActionRefusesAnInsecureAddressWithoutChecksum(t *testing.T) {
	r := newRunner(t, t.TempDir(), map[string]string{"archive": "http://host/softrdma.tar.gz"})
	if out, err := r.steps(); err == nil || !strings.Contains(out, "expected https:// or a checksum: set sha256") {
		t.Errorf("%v\n%s", err, out)
	}
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	name, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPagesWorkflowUsesInputsThatExist(t *testing.T) {
	var w workflow
	list := blocks(t, "yaml")[""]
	if len(list) != 2 {
		t.Fatalf("the page opens with %d blocks, expected GitHub's and GitLab's", len(list))
	}
	parse(t, []byte(list[0]), &w)
	inputs, used := readAction(t).Inputs, false
	for _, job := range w.Jobs {
		for _, s := range job.Steps {
			used = used || strings.HasPrefix(s.Uses, "OWNER/softrdma@")
			for name := range s.With {
				if _, known := inputs[name]; !known {
					t.Errorf("the action has no input %s", name)
				}
			}
		}
	}
	if !used {
		t.Error("the workflow does not use the action")
	}
}
