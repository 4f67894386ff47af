package main

import (
	"io"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestCompletionOffersPortsOfFabrics(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	clitest.Start(t, "fabric", "up", "--topology", "star:2").Prints("set it up")
	for typed, addresses := range map[string]bool{"": true, "ib:": false} {
		var b strings.Builder
		root := newRootCommand()
		root.SetOut(&b)
		root.SetErr(io.Discard) // cobra describes the directive there
		root.SetArgs([]string{"__complete", "pingpong", "-d", typed})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := b.String()
		if !strings.Contains(out, "ib:fab0/node-1\tLID 3, active\n") || strings.Contains(out, "127.0.0.1\t") != addresses {
			t.Errorf("%q:\n%s", typed, out)
		}
	}
}
