package ci

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	repository = "../.."
	page       = repository + "/docs/ci.md"
)

// lacks skips a test because this machine lacks something, or fails it in CI.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI lacks ", what)
	}
	t.Skip("SKIPPED: this machine lacks ", what)
}

// blocks returns the code blocks of a language, by section.
func blocks(t *testing.T, language string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	block := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, section := range strings.Split("\n"+string(b), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			all[title] = append(all[title], m[1])
		}
	}
	return all
}

// needs are the programs and headers of a section, and what its scripts leave or print.
var needs = map[string]struct {
	files  []string
	prints string
}{
	"perftest":                      {[]string{"ib_write_bw"}, "65536      1000"},
	"UCX":                           {[]string{"ucx_perftest"}, "Final:"},
	"Open MPI":                      {[]string{"mpirun", "mpicc"}, "4 ranks: sum 6"},
	"gloo":                          {[]string{"g++", "/usr/include/gloo/transport/ibverbs/device.h", "/usr/include/infiniband/verbs.h"}, "2 ranks exchanged"},
	"Two hosts in one job":          {[]string{"ib_read_bw"}, "65536      1000"},
	"Keep evidence of a failed job": {[]string{"ibv_rc_pingpong"}, "packets: SEND"},
	"Wait for a server":             {[]string{"ss"}, ""},
}

// shell runs a script with variables beside this process's, in a network of its own.
func shell(t *testing.T, dir, script string, variables map[string]string) (string, error) {
	t.Helper()
	if os.Getuid() != 0 {
		lacks(t, "root, for a network of the test's own")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-e", "-o", "pipefail", "-c", "ip link set lo up\n"+script)
	c.Dir, c.Env, c.WaitDelay = dir, os.Environ(), 10*time.Second
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		c.Env = append(c.Env, name+"="+variables[name])
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

// command returns the program of make dist.
func command(t *testing.T) string {
	t.Helper()
	name, err := filepath.Abs(filepath.Join(repository, "bin/dist/programs/linux-amd64/softrdma"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); err != nil {
		lacks(t, "bin/dist: make dist builds it")
	}
	return name
}

func TestScriptsOfThePageDoWhatTheySay(t *testing.T) {
	sources, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(t, "sh")
	for _, title := range slices.Sorted(maps.Keys(all)) {
		need, known := needs[title]
		if !known {
			t.Errorf("no test of the section %q", title)
			continue
		}
		t.Run(title, func(t *testing.T) {
			for _, f := range need.files {
				if _, err := exec.LookPath(f); err != nil {
					if _, err := os.Stat(f); err != nil {
						lacks(t, f)
					}
				}
			}
			script := fmt.Sprintf("export PATH=%s:$PATH\neval \"$(softrdma env)\"\n", filepath.Dir(command(t))) + all["Wait for a server"][0]
			if title != "Wait for a server" {
				script += strings.Join(all[title], "\n")
			}
			if title == "Keep evidence of a failed job" {
				script += "\n[ -z \"$failed\" ]; cat evidence/*.log; grep -c SEND evidence/packets.txt | sed 's/^[1-9].*/packets: SEND/'\n"
			}
			out, err := shell(t, t.TempDir(), script, map[string]string{"SOFTRDMA_SOURCES": sources, "XDG_CACHE_HOME": t.TempDir()})
			if err != nil || !strings.Contains(out, need.prints) {
				t.Errorf("%v, expected %q in\n%s", err, need.prints, out)
			}
		})
	}
	for title := range needs {
		if len(all[title]) == 0 {
			t.Errorf("the section %q has no script", title)
		}
	}
}
