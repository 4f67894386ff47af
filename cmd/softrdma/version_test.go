package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestVersionDescribesBuild(t *testing.T) {
	var v versionInfo
	if err := json.Unmarshal([]byte(clitest.Run(t, "version", "--json")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Version == "" || v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("unexpected version %+v", v)
	}
	out := clitest.Run(t, "version")
	for _, w := range []string{"softrdma " + v.Version + "\n", "commit ", "go ", "platform  " + v.Platform, "exec "} {
		if !strings.Contains(out, w) {
			t.Errorf("expected %q, found\n%s", w, out)
		}
	}
	if short := clitest.Run(t, "--version"); !strings.HasPrefix(short, "softrdma "+v.Version+" (") || strings.Count(short, "\n") != 1 {
		t.Errorf("unexpected --version %q", short)
	}
}

func TestVersionStampedByLinker(t *testing.T) {
	program := filepath.Join(t.TempDir(), "softrdma.exe")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=1.2.3-dirty -X main.commit=abc", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "softrdma 1.2.3-dirty\ncommit    abc, modified\n") {
		t.Errorf("%v: found\n%s", err, out)
	}
}

func TestVersionFromGo(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	info.Main.Version = "v1.2.3"
	var v versionInfo
	v.fill(info)
	if v.Version != "v1.2.3" || v.Commit != "abc" || v.Time != "2026-01-02T03:04:05Z" || !v.Modified {
		t.Errorf("unexpected version %+v", v)
	}
	stamped := versionInfo{Version: "1.0", Commit: "def"}
	if stamped.fill(info); stamped.Version != "1.0" || stamped.Commit != "def" || stamped.Modified {
		t.Errorf("the linker's stamp was changed: %+v", stamped)
	}
}
