//go:build interop && linux

package uverbs

import (
	stdcontext "context"
	"os/exec"
	"strings"
	"testing"

	"softrdma/internal/testenv"
)

// python is what Debian's pyverbs is for.
const python = "/usr/bin/python3"

// runPython runs a script of testdata that uses verbs, and returns its output.
func runPython(t *testing.T, s *Server, lib string, args ...string) string {
	t.Helper()
	if exec.Command(python, "-c", "import pyverbs").Run() != nil {
		testenv.Lacks(t, "python3-pyverbs")
	}
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 3*timeLimit)
	defer cancel()
	c, out := command(ctx, t, s, lib, append([]string{python}, args...)...)
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "nothing left", func() bool { return s.Count() == Counts{} })
	return out.String()
}

func TestProgramsForkWithAndWithoutForkInit(t *testing.T) {
	lib, s := library(t), newServer(t, "127.14.3.4")
	for _, args := range [][]string{{"testdata/fork.py"}, {"testdata/fork.py", "init"}} {
		if out := runPython(t, s, lib, args...); !strings.Contains(out, "ended well") {
			t.Errorf("%v:\n%s", args, out)
		}
	}
}

func TestProgramsOutOfDescriptorsGoOnWithFewer(t *testing.T) {
	lib, s := library(t), newServer(t, "127.14.3.5")
	out := runPython(t, s, lib, "testdata/descriptors.py")
	if strings.Count(out, "Errno: 24") != 2 || !strings.Contains(out, "works again") {
		t.Error(out)
	}
}

func TestProgramsInErrHaveTheirReceivesFlushed(t *testing.T) {
	lib, s := library(t), newServer(t, "127.14.3.6")
	if out := runPython(t, s, lib, "testdata/errreceives.py"); !strings.Contains(out, "all were flushed") {
		t.Error(out)
	}
}
