package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linux are the systems with packages.
var linux = []system{{"linux", "amd64"}, {"linux", "arm64"}}

// debName returns the package of a system for Debian.
func debName(t *testing.T, s system) string {
	t.Helper()
	return filepath.Join(built, fmt.Sprintf("softrdma_%s_%s.deb", current(t).packageVersion(), s.arch))
}

// rpmName returns the package of a system for Fedora.
func rpmName(t *testing.T, s system) string {
	t.Helper()
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[s.arch]
	return filepath.Join(built, fmt.Sprintf("softrdma-%s-1.%s.rpm", current(t).packageVersion(), arch))
}

// tool runs a program of Debian, without which the test is skipped.
func tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		lacks(t, name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

// debMembers returns the files of a package for Debian.
func debMembers(t *testing.T, name string) map[string]member {
	t.Helper()
	out, err := tool(t, "dpkg-deb", "--fsys-tarfile", name)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := map[string]member{}
	for r := tar.NewReader(strings.NewReader(out)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s: %s belongs to %d:%d", name, h.Name, h.Uid, h.Gid)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(h.Name, "./")] = member{h.FileInfo().Mode(), b}
	}
}

// everywhere are files that are in the packages of both formats, beside their own.
var everywhere = []string{
	"usr/bin/softrdma", "usr/lib/systemd/system/softrdma.service", "usr/share/man/man1/softrdma.1.gz", "usr/share/man/man1/softrdma-exec.1.gz",
	"usr/share/bash-completion/completions/softrdma", "usr/share/fish/vendor_completions.d/softrdma.fish",
}

func TestDebianPackageIsComplete(t *testing.T) {
	d := current(t)
	for _, s := range linux {
		found := debMembers(t, debName(t, s))
		for _, name := range append(everywhere, "usr/share/zsh/vendor-completions/_softrdma", "usr/share/doc/softrdma/copyright", "usr/share/doc/softrdma/"+licencesName+".gz") {
			if f, there := found[name]; !there || len(f.data) == 0 || (f.mode&0o111 != 0) != (name == "usr/bin/softrdma") {
				t.Errorf("%v: %s: %v, %d bytes", s, name, f.mode, len(f.data))
			}
		}
		program, err := os.ReadFile(d.program(s))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(found["usr/bin/softrdma"].data, program) {
			t.Errorf("%v: the package contains a program that differs from the built one", s)
		}
		fields, err := tool(t, "dpkg-deb", "--field", debName(t, s), "Architecture", "Depends", "Recommends")
		if want := "Architecture: " + s.arch + "\nRecommends: ibverbs-providers (>= 33), librdmacm1 (>= 33)\n"; err != nil || fields != want {
			t.Errorf("expected\n%s, found %v\n%s", want, err, fields)
		}
	}
}

func TestFedoraPackageIsComplete(t *testing.T) {
	for _, s := range linux {
		list, err := tool(t, "rpm", "-qpl", rpmName(t, s))
		if err != nil {
			t.Fatalf("%v: %s", err, list)
		}
		found := strings.Split(strings.TrimSpace(list), "\n")
		for _, name := range append(everywhere, "usr/share/zsh/site-functions/_softrdma", "usr/share/licenses/softrdma/LICENSE", "usr/share/licenses/softrdma/"+licencesName) {
			if !slices.Contains(found, "/"+name) {
				t.Errorf("%v lacks %s in\n%s", s, name, list)
			}
		}
		needs, err := tool(t, "rpm", "-qp", "--requires", "--recommends", rpmName(t, s))
		for name := range strings.FieldsSeq(needs) {
			if !slices.Contains([]string{"libibverbs", "librdmacm"}, name) {
				t.Errorf("%v needs %s (%v)", s, name, err)
			}
		}
	}
}

// The licences of all modules in the command, and Go's, are in each package.
func TestLicencesNameEachModule(t *testing.T) {
	d := current(t)
	z, err := gzip.NewReader(bytes.NewReader(debMembers(t, debName(t, host))["usr/share/doc/softrdma/"+licencesName+".gz"].data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := output(t.Context(), repository, "go", "version", "-m", mustAbs(t, d.program(host)))
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{"Go's standard library"}
	for line := range strings.Lines(modules) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
			wanted = append(wanted, f[1]+" "+f[2]+" (LICEN")
		}
	}
	for _, w := range wanted {
		if !strings.Contains(string(text), w) {
			t.Errorf("no licence of %s", w)
		}
	}
	if len(wanted) < 5 {
		t.Errorf("modules are\n%s", modules)
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

func TestDebianPackagePassesLintian(t *testing.T) {
	for _, s := range linux {
		if out, err := tool(t, "lintian", "--allow-root", "--fail-on", "error,warning", debName(t, s)); err != nil {
			t.Errorf("%v: %v\n%s", s, err, out)
		}
	}
}

// acceptedByRPM are what rpmlint reports and stays: signatures are made where packages are
// published; the format that nfpm writes has no class of a file, by which rpmlint knows programs;
// changes are in git; Fedora has no groups any more.
var acceptedByRPM = []string{"no-signature", "no-binary", "no-changelogname-tag", "no-group-tag"}

func TestFedoraPackagePassesRpmlint(t *testing.T) {
	for _, s := range linux {
		out, err := tool(t, "rpmlint", rpmName(t, s))
		if !strings.Contains(out, "1 packages and 0 specfiles checked") {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(out) {
			if _, tag, found := strings.Cut(line, ": E: "); found && !slices.Contains(acceptedByRPM, strings.Fields(tag)[0]) {
				t.Errorf("%v: %s", s, line)
			}
		}
	}
}

// The scripts run in the user lands of the lab (make userlands).
func TestFedoraPackageLeavesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		lacks(t, "root, which rpm --root needs")
	}
	root := t.TempDir()
	// Debian's rpm advises against installing packages by it.
	for _, args := range [][]string{{"--initdb"}, {"-i", "--noscripts", mustAbs(t, rpmName(t, host))}, {"-V", "softrdma"}} {
		if out, err := tool(t, "rpm", append([]string{"--root", root}, args...)...); err != nil || out != "" && args[0] == "-V" {
			t.Fatalf("rpm %v: %v: %s", args, err, out)
		}
	}
	if out, err := exec.Command(path.Join(root, "usr/bin/softrdma"), "version").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := tool(t, "rpm", "--root", root, "-e", "--noscripts", "softrdma"); err != nil {
		t.Fatalf("rpm -e: %v: %s", err, out)
	}
	left, err := tool(t, "find", path.Join(root, "usr"), "-path", "*softrdma*")
	if err != nil || left != "" {
		t.Errorf("%v, left:\n%s", err, left)
	}
}

func TestPackageVersionIsInOrder(t *testing.T) {
	for _, c := range []struct{ version, want string }{
		{"1.2.3", "1.2.3"},
		{"0.1.0-dev.0123456789ab", "0.1.0~dev.0123456789ab"},
		{"0.1.0-dev.0123456789ab-dirty", "0.1.0~dev.0123456789ab.dirty"},
		{"1.2.3-5-g0123456789ab", "1.2.3+5.g0123456789ab"},
	} {
		if got := (&distribution{version: c.version}).packageVersion(); got != c.want {
			t.Errorf("%s: expected %s, found %s", c.version, c.want, got)
		}
	}
}
