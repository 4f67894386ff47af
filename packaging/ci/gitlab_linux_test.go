package ci

import (
	"os"
	"strings"
	"testing"
)

// A gitlabJob is as much of a job as the template and docs/ci.md use.
type gitlabJob struct {
	Extends, Image string
	Variables      map[string]string
	Cache          []struct {
		Key   string
		Paths []string
	}
	BeforeScript []string `yaml:"before_script"`
	Script       []string
}

func TestGitLabTemplateGivesScriptsADevice(t *testing.T) {
	b, err := os.ReadFile("../gitlab/softrdma.yml")
	if err != nil {
		t.Fatal(err)
	}
	template := map[string]gitlabJob{}
	parse(t, b, template)
	job, there := template[".softrdma"]
	if !there || len(template) != 1 {
		t.Fatalf("found %v", template)
	}
	project := t.TempDir()
	variables := map[string]string{"CI_PROJECT_DIR": project, "XDG_CACHE_HOME": t.TempDir()}
	for name, value := range job.Variables {
		variables[name] = value
	}
	// A runner refuses to cache under a key with a slash, which names of branches and systems may have.
	for _, c := range job.Cache {
		if strings.ContainsAny(c.Key, "/$") {
			t.Errorf("expected a key without / and variables, found %q", c.Key)
		}
	}
	noSources := strings.Join(job.BeforeScript, "\n")
	if out, err := shell(t, project, noSources, variables); err == nil || !strings.Contains(out, "set SOFTRDMA_ARCHIVE or SOFTRDMA_REPOSITORY") {
		t.Errorf("neither archive nor sources: %v\n%s", err, out)
	}
	variables["SOFTRDMA_ARCHIVE"], variables["SOFTRDMA_ENV"] = archive(t), "-d 127.0.0.1 -d 127.0.0.2"
	script := strings.Join(job.BeforeScript, "\n") + "\n" + devices + "; ibv_devices"
	for _, run := range []string{"first", "with a cache"} {
		out, err := shell(t, project, script, variables)
		if err != nil || !strings.Contains(out, "PORT_ACTIVE") || !strings.Contains(out, "rxe1") || !strings.Contains(out, project+"/.softrdma/softrdma") {
			t.Errorf("%s: %v\n%s", run, err, out)
		}
		if err := os.RemoveAll(variables["SOFTRDMA_ARCHIVE"]); err != nil {
			t.Fatal(err)
		}
	}
	variables["SOFTRDMA_ARCHIVE"], variables["PATH"] = "file://"+archive(t), noCurl(t)+":"+os.Getenv("PATH")
	if out, err := shell(t, project, script, variables); err != nil || !strings.Contains(out, "PORT_ACTIVE") {
		t.Errorf("the address of a file: %v\n%s", err, out)
	}
	variables["SOFTRDMA_SHA256"] = strings.Repeat("0", 64)
	variables["SOFTRDMA_ARCHIVE"] = archive(t)
	if out, err := shell(t, project, script, variables); err == nil || strings.Contains(out, "PORT_ACTIVE") {
		t.Errorf("an archive with another checksum: %v\n%s", err, out)
	}

	// The page's job uses variables of the template.
	var user struct {
		Include []struct{ Remote string }
		Test    gitlabJob
	}
	parse(t, []byte(blocks(t, "yaml")[""][1]), &user)
	for name := range user.Test.Variables {
		if _, known := job.Variables[name]; !known {
			t.Errorf("the template has no variable %s", name)
		}
	}
	if user.Test.Extends != ".softrdma" || len(user.Include) != 1 || !strings.HasSuffix(user.Include[0].Remote, "/packaging/gitlab/softrdma.yml") {
		t.Errorf("found %+v", user)
	}
}
