package docs

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"softrdma/internal/explain"
)

var (
	testName  = regexp.MustCompile("`(?:[a-z/]+:)?(Test[A-Z][A-Za-z0-9]*)(…?)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	hiddenDir = regexp.MustCompile(`^\.[a-z]`)
)

// allTests are the names of all test functions of the repository.
func allTests(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && hiddenDir.MatchString(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			all = append(all, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 1000 {
		t.Fatalf("found %d tests: they are not read any more", len(all))
	}
	return all
}

// Each test that security.md names exists: one by its name, several by what their
// names begin with.
func TestSecurityNamesTestsThatExist(t *testing.T) {
	all, found := allTests(t), 0
	for _, m := range testName.FindAllStringSubmatch(documents(t)["security.md"], -1) {
		found++
		if !slices.ContainsFunc(all, func(n string) bool { return n == m[1] || m[2] != "" && strings.HasPrefix(n, m[1]) }) {
			t.Errorf("security.md names %s, which does not exist", m[1])
		}
	}
	if found < 40 {
		t.Errorf("found %d names of tests: they are not read any more", found)
	}
}

// Each promise of what a hostile peer cannot do names its tests, and each attack is
// named.
func TestSecurityPromisesHaveTests(t *testing.T) {
	text := documents(t)["security.md"]
	_, section, ok := strings.Cut(text, "\n## What a hostile peer can do\n")
	if !ok {
		t.Fatal("security.md has no section about hostile peers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	promises := strings.Split(section, "\n- **")[1:]
	if len(promises) < 8 {
		t.Errorf("found %d promises: they are not read any more", len(promises))
	}
	for _, p := range promises {
		if !testName.MatchString(p) {
			t.Errorf("no test is named for: %.60s", p)
		}
	}
	for _, n := range allTests(t) {
		if attack := strings.HasPrefix(n, "TestAttack"); attack && !slices.Contains(ownChecks, n) && !strings.Contains(text, n+"`") {
			t.Errorf("security.md does not name %s", n)
		}
	}
}

// ownChecks are the tests of package attack of itself.
var ownChecks = []string{"TestAttackPacketsHaveAValidICRC", "TestAttackRequestIsAdmitted", "TestAttackHarnessPasses", "TestAttackSendersSendAll"}

// Reasons that security.md names can be asked for with `softrdma explain`.
func TestSecurityNamesAreExplained(t *testing.T) {
	known := map[string]bool{"ATTACK_FACTOR": true, "CAP_NET_RAW": true, "TCP_USER_TIMEOUT": true, "SIDR_REQ": true, "SIDR_REP": true}
	for _, e := range explain.All() {
		known[e.Name] = true
	}
	for _, n := range reasonName.FindAllString(documents(t)["security.md"], -1) {
		if !known[n] {
			t.Errorf("security.md names %s, which explain does not know", n)
		}
	}
}

// Lines of security.md are short enough to be read as they are; a table's row and a
// command cannot be broken.
func TestSecurityWraps(t *testing.T) {
	code := false
	for i, line := range strings.Split(documents(t)["security.md"], "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if n := len([]rune(line)); n > 100 && !code && !strings.HasPrefix(strings.TrimSpace(line), "|") {
			t.Errorf("security.md:%d: %d columns, expected 100 at most", i+1, n)
		}
	}
}

// The commands of the document make certificates that the two ends trust, and none that could
// sign others.
func TestCertificatesOfTheDocumentAreTrusted(t *testing.T) {
	if v, err := exec.Command("openssl", "version").Output(); err != nil || !strings.HasPrefix(string(v), "OpenSSL 3") {
		t.Skipf("SKIPPED: expected OpenSSL 3, found %q (%v)", v, err)
	}
	var commands string
	for _, block := range strings.Split(section(t, "security.md", "TLS"), "```sh\n")[1:] {
		if text, _, _ := strings.Cut(block, "```"); strings.HasPrefix(text, "openssl") {
			commands += text
		}
	}
	cmd := exec.Command("sh", "-e", "-c", commands)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil || commands == "" {
		t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
	read := func(name string) *x509.Certificate {
		c, err := tls.LoadX509KeyPair(filepath.Join(cmd.Dir, name+".pem"), filepath.Join(cmd.Dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf
	}
	roots := x509.NewCertPool()
	roots.AddCert(read("ca"))
	for _, x := range []struct {
		name    string
		options x509.VerifyOptions
	}{
		{"server", x509.VerifyOptions{Roots: roots, DNSName: "host-a", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}},
		{"server", x509.VerifyOptions{Roots: roots, DNSName: "192.0.2.1", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}},
		{"client", x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}},
	} {
		c := read(x.name)
		if _, err := c.Verify(x.options); err != nil || c.IsCA {
			t.Errorf("%s: %v, authority: %v", x.name, err, c.IsCA)
		}
	}
}
