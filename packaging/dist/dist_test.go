package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The output of make dist, and the repository.
const (
	built      = "../../bin/dist"
	repository = "../.."
)

// lacks skips a test because this machine lacks something, or fails it in CI.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI lacks ", what)
	}
	t.Skip("SKIPPED: this machine lacks ", what)
}

// current returns the distribution in built, and fails the test if it is of other
// sources.
func current(t *testing.T) *distribution {
	t.Helper()
	d := &distribution{root: repository, out: built}
	if err := d.describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(built, sumsName)); err != nil {
		lacks(t, "bin/dist: make dist builds it")
	}
	if _, err := os.Stat(filepath.Join(built, d.name(systems[0])+".cdx.json")); err != nil {
		t.Fatalf("bin/dist was built from other sources: run make dist (%v)", err)
	}
	return d
}

func (d *distribution) program(s system) string {
	return filepath.Join(d.out, "programs", s.String(), s.program())
}

// host is the system that runs the tests.
var host = system{runtime.GOOS, runtime.GOARCH}

// A member is a file in an archive.
type member struct {
	mode fs.FileMode
	data []byte
}

func readArchive(t *testing.T, name string) map[string]member {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]member{}
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			b, err := fs.ReadFile(z, f.Name)
			if err != nil {
				t.Fatal(err)
			}
			all[f.Name] = member{f.Mode(), b}
		}
		return all
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s: %s has a time or an owner", name, h.Name)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = member{h.FileInfo().Mode(), b}
	}
}

func TestArchivesAreComplete(t *testing.T) {
	d := current(t)
	for _, s := range systems {
		name := d.name(s) + ".tar.gz"
		if s.os == "windows" {
			name = d.name(s) + ".zip"
		}
		found := readArchive(t, filepath.Join(built, name))
		wanted := []string{
			s.program(), "LICENSE", licencesName, "README.md", "man/man1/softrdma.1", "man/man1/softrdma-demo.1", "man/man1/softrdma-daemon.1", "man/man1/softrdma-version.1",
			"completions/bash/softrdma", "completions/zsh/_softrdma", "completions/fish/softrdma.fish", "completions/powershell/softrdma.ps1",
		}
		for _, w := range wanted {
			f, there := found[path.Join(d.name(s), w)]
			if !there || len(f.data) == 0 {
				t.Errorf("%s lacks %s", name, w)
			}
			if executable := f.mode&0o111 != 0; s.os != "windows" && executable != (w == s.program()) {
				t.Errorf("%s: %s has mode %v", name, w, f.mode)
			}
		}
		if _, unit := found[path.Join(d.name(s), "systemd/softrdma.service")]; unit != (s.os == "linux") {
			t.Errorf("%s: a unit of systemd: %v", name, unit)
		}
		program, err := os.ReadFile(d.program(s))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(found[path.Join(d.name(s), s.program())].data, program) {
			t.Errorf("%s contains a program that differs from the built one", name)
		}
	}
}

func TestManualHasEachCommand(t *testing.T) {
	d := current(t)
	help, err := exec.Command(d.program(host), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(help), "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	commands := 0
	for line := range strings.Lines(list) {
		name := strings.Fields(line)[0]
		if name == "help" {
			continue
		}
		commands++
		page, err := os.ReadFile(filepath.Join(built, "man", "man1", "softrdma-"+name+".1"))
		if err != nil || !strings.Contains(string(page), ".SH SYNOPSIS") {
			t.Errorf("no manual page of %s: %v", name, err)
		}
	}
	if commands < 10 {
		t.Errorf("found %d commands in\n%s", commands, help)
	}
}

func TestChecksumsCoverAllFiles(t *testing.T) {
	d := current(t)
	b, err := os.ReadFile(filepath.Join(built, sumsName))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
		data, err := os.ReadFile(filepath.Join(built, name))
		if err != nil {
			t.Error(err)
		} else if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has a wrong checksum", name)
		}
	}
	for _, s := range systems {
		for _, end := range []string{".tar.gz", ".zip", ".cdx.json"} {
			archive := (end == ".zip") == (s.os == "windows")
			if want := archive || end == ".cdx.json"; slices.Contains(names, d.name(s)+end) != want {
				t.Errorf("%s names %s%s: expected %v", sumsName, d.name(s), end, want)
			}
		}
	}
}

func TestComponentsMatchTheProgram(t *testing.T) {
	d := current(t)
	for _, s := range systems {
		f, err := os.Open(filepath.Join(built, d.name(s)+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var bom cdx.BOM
		if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.ReadFile(d.program(s))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			want = append(want, fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version))
		}
		var found []string
		for _, c := range *bom.Components {
			found = append(found, c.PackageURL)
		}
		if !slices.Equal(found, want) || len(want) < 10 {
			t.Errorf("%v: expected %v, found %v", s, want, found)
		}
		data, err := os.ReadFile(d.program(s))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		self := bom.Metadata.Component
		if self.Version != d.version || (*self.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
			t.Errorf("%v: the program is %+v", s, self)
		}
	}
}

func TestProgramsAreStamped(t *testing.T) {
	d := current(t)
	out, err := exec.Command(d.program(host), "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Version, Commit, Platform string }
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	if v.Version != d.version || v.Commit != d.commit || v.Platform != host.os+"/"+host.arch {
		t.Errorf("expected version %s of commit %s, found %s", d.version, d.commit, out)
	}
}

// The same sources give the same bytes, without paths of this machine.
func TestProgramsAreReproducible(t *testing.T) {
	d := current(t)
	here, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range systems {
		data, err := os.ReadFile(d.program(s))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(here+"/cmd")) {
			t.Errorf("%v: the program contains the path of its sources", s)
		}
	}
	again := t.TempDir()
	if err := run(context.Background(), repository, filepath.Join(again, "dist"), host.String(), defaultMaintainer); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(again, "dist", "softrdma*"))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[bool]int{true: 4, false: 2}[host.os == "linux"]; len(files) != want {
		t.Errorf("built %v, expected %d files", files, want)
	}
	for _, f := range files {
		one, err := os.ReadFile(filepath.Join(built, filepath.Base(f)))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("a second run builds a different %s", filepath.Base(f))
		}
	}
}

func TestUnknownSystemIsRefused(t *testing.T) {
	if err := run(t.Context(), repository, filepath.Join(t.TempDir(), "x"), "plan9-amd64", defaultMaintainer); err == nil || !strings.Contains(err.Error(), "plan9-amd64") {
		t.Errorf("found %v", err)
	}
}
