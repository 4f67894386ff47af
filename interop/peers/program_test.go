//go:build interop && linux

package peers

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestProgramOutputIsItsStandardOutput(t *testing.T) {
	start := func(script string) *Program {
		t.Helper()
		e, err := startCommand(t.Context(), exec.CommandContext(t.Context(), "sh", "-c", script), "script")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if out, err := start("echo out; echo err >&2").Output(t.Context()); out != "out\n" || err != nil {
		t.Errorf("found %q, %v", out, err)
	}
	e := start("echo out; echo err >&2; exit 3")
	if out, err := e.Output(t.Context()); out != "out\n" || err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "err") {
		t.Errorf("exit status 3: found %q, %v", out, err)
	}
	if said := e.Said(); !strings.Contains(said, "out") || !strings.Contains(said, "err") {
		t.Errorf("both outputs: found %q", said)
	}
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, late)
	defer cancel()
	if _, err := start("exec sleep 1000").Output(ctx); !errors.Is(err, late) {
		t.Errorf("a program that does not end: found %v, expected %v", err, late)
	}
}
