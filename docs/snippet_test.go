package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
)

// snippet is the first block of Go of a section of the README.
func snippet(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(section(t, filepath.Join(root, "README.md"), heading), "```go\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("%q has no block of Go", heading)
	}
	if n := strings.Count(block, "\n"); n > 20 {
		t.Errorf("the block of %q has %d lines, expected at most 20", heading, n)
	}
	return block
}

// program builds a program whose function main is a block, with more at its end.
func program(t *testing.T, imports, begin, block, end string) string {
	t.Helper()
	dir, err := os.MkdirTemp(root, "_snippet") // in this module, for its requirements; ./... leaves it out
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text := "package main\n\nimport (\n"
	for path := range strings.FieldsSeq(imports) {
		text += fmt.Sprintf("\t%q\n", path)
	}
	text += ")\n\nfunc main() {\n" + begin + block + end + "}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program.exe")
	cmd := exec.Command("go", "build", "-o", path, "./"+filepath.Base(dir))
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	return path
}

// prints runs a program and compares what it prints.
func prints(t *testing.T, want, path string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("printed %q, %v, expected %q", out, err, want)
	}
}

// The README's shortest programs of messages, groups and calls do what it says.
func TestReadmeProgramsRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the programs need more than one loopback address")
	}
	t.Run("messages", func(t *testing.T) {
		block := strings.ReplaceAll(snippet(t, "Messages"), "127.0.0.", "127.16.92.")
		prints(t, "tag 7: hello\n", program(t, "context fmt softrdma/msg softrdma/verbs", "", block, ""))
	})
	t.Run("calls", func(t *testing.T) {
		block := strings.ReplaceAll(snippet(t, "Remote procedure calls"), "127.0.0.", "127.16.93.")
		path := program(t, "context fmt softrdma/rpc", "ctx := context.Background()\n", block, "fmt.Println(answer, err)\n")
		prints(t, "hello, gopher <nil>\n", path)
	})
	t.Run("groups", func(t *testing.T) {
		path := program(t, "context fmt log softrdma/coll", "", snippet(t, "Groups of programs"), "")
		meet := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "tcp"))
		t.Run("ranks", func(t *testing.T) {
			for r := range 2 {
				t.Run(fmt.Sprint(r), func(t *testing.T) {
					t.Parallel()
					prints(t, fmt.Sprintf("rank %d of 2: [2 1]\n", r), path, fmt.Sprintf("SLURM_PROCID=%d", r), "SLURM_NTASKS=2",
						"SOFTRDMA_RUN="+meet, "SOFTRDMA_RUN_SECRET="+strings.Repeat("5a", 16), fmt.Sprintf("SOFTRDMA_DEVICE=127.16.94.%d", 1+r))
				})
			}
		})
	})
}
