package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// section is what stands under a heading of a document.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s: no section %q", file, heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// commands are the lines of the first shell block of a text.
func commands(t *testing.T, text string) []string {
	t.Helper()
	_, rest, found := strings.Cut(text, "```sh\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("no shell block")
	}
	return strings.Split(strings.TrimSpace(block), "\n")
}

// The lines of the README make a program of another module run, with nothing
// from the network.
func TestReadmeLinesImportAClone(t *testing.T) {
	clone, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	module := filepath.Join(dir, "program")
	if err := os.Mkdir(module, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(clone, filepath.Join(dir, "softrdma")); err != nil {
		t.Skipf("SKIPPED: this system makes no symbolic links: %v", err)
	}
	// A program that imports all three packages, on addresses of its own.
	hello, err := os.ReadFile(filepath.Join(clone, "examples", "hello", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	program := strings.ReplaceAll(string(hello), "127.0.0.", "127.16.91.")
	program = strings.Replace(program, `"softrdma/verbs"`, "_ \"softrdma/rdmacm\"\n\t_ \"softrdma/rdmanet\"\n\t\"softrdma/verbs\"", 1)
	for name, text := range map[string]string{"go.mod": "module example.com/program\n\ngo 1.26\n", "main.go": program} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines := commands(t, section(t, filepath.Join(root, "README.md"), "Use it in your program"))
	if len(lines) != 3 {
		t.Fatalf("expected three lines, found %q", lines)
	}
	var out []byte
	for _, line := range lines {
		if runtime.GOOS != "linux" {
			line = strings.Replace(line, "go run", "go build", 1) // one loopback address alone
		}
		args := strings.Fields(line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = module
		// What this module needs is in the module cache already.
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		if out, err = cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if runtime.GOOS == "linux" && !strings.Contains(string(out), "hello from 127.16.91.1") {
		t.Errorf("the program printed %q", out)
	}
}

// The lines of docs/ucx.md make a program that imports UCX's binding build without cgo, with nothing
// from the network.
func TestUCXLinesReplaceTheBinding(t *testing.T) {
	clone, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	module := filepath.Join(dir, "program")
	if err := os.Mkdir(module, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(clone, filepath.Join(dir, "softrdma")); err != nil {
		t.Skipf("SKIPPED: this system makes no symbolic links: %v", err)
	}
	const path = "github.com/openucx/ucx/bindings/go/src/ucx"
	for name, text := range map[string]string{
		"go.mod":  "module example.com/program\n\nrequire " + path + " v0.0.0-00010101000000-000000000000\n", // as UCX's
		"main.go": "package main\n\nimport \"" + path + "\"\n\nfunc main() { println(ucx.UCS_ERR_BUSY.String()) }\n",
	} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range commands(t, section(t, "ucx.md", "Use it in a program")) {
		args := strings.Fields(strings.TrimPrefix(line, "CGO_ENABLED=0 "))
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	out, err := exec.Command(filepath.Join(module, "program")).CombinedOutput()
	if runtime.GOOS != "windows" && (err != nil || string(out) != "busy\n") {
		t.Errorf("the program printed %q, %v", out, err)
	}
}
