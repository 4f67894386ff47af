//go:build interop && linux

package userlands

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/interop/lab"
)

var besideRXE = flag.Bool("rxe", false, "run each program also on Linux's Soft RoCE, in a guest with the same user land")

const (
	// guestNetwork gives rxe0 the address that programs use, at the same place in its table of GIDs.
	guestNetwork = "ip address flush dev eth0 scope global; ip address add 192.0.2.1/24 dev eth0\n"

	// A guest is slow. Servers get more time to start, programs to end, and modules of rdma-core's tests.
	slowly      = "sleep() { command sleep $(($1 * 3)); }\n"
	guestLimit  = 4 * time.Minute
	suiteLimit  = 30 * time.Minute
	moduleLimit = "timeout 300"
)

// A guest runs programs on rxe in a user land of the host, whose files it sees. It boots at the first program, and again after one
// that has not ended, which may have left the kernel stuck.
type guest struct{ lab *lab.Lab }

// newGuest returns the guest of a release, nil without -rxe.
func newGuest(t *testing.T) *guest {
	if !*besideRXE {
		return nil
	}
	g := &guest{}
	t.Cleanup(func() { g.close(t.Failed()) })
	return g
}

func (g *guest) close(failed bool) {
	if g.lab != nil {
		g.lab.Close(failed)
		g.lab = nil
	}
}

// run returns what a program prints in a user land.
func (g *guest) run(t *testing.T, root string, p program) (string, error) {
	t.Helper()
	if g.lab == nil {
		l, err := lab.Open(context.Background(), 1, lab.TestProcessor) // which outlives this program
		if lab.IsLack(err) {
			testenv.Lacks(t, err.Error())
		} else if err != nil {
			t.Fatal(err)
		}
		g.lab = l
	}
	limit := guestLimit
	if p.script == rdmaCore {
		limit = suiteLimit
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	script := slowly + strings.ReplaceAll(p.script, "timeout 100", moduleLimit)
	out, err := g.lab.Guests[0].Run(ctx, entering(root, "/root", guestNetwork, `sh -c "$SCRIPT" 2>&1`, script)...)
	if ctx.Err() != nil {
		g.close(true)
	}
	return out.Stdout + out.Stderr, err
}

// judge runs a program on rxe and notes its result beside that of softrdma.
func (g *guest) judge(t *testing.T, root string, p program, out string, err error) {
	if g == nil {
		return
	}
	rxeOut, rxeErr := g.run(t, root, p)
	rxe := verdict(p, rxeOut, rxeErr)
	t.Logf("RESULT %s: softrdma %s, rxe %s", p.name, verdict(p, out, err), rxe)
	if rxe != "passes" {
		t.Logf("rxe: %v\n%s", rxeErr, lab.Tail(rxeOut, 3000))
	}
}

var passed = regexp.MustCompile(`(?m)^\d+ pass, \d+ are skipped$`)

// verdict says how a program ended. Of rdma-core's tests it says how many.
func verdict(p program, out string, err error) string {
	if counts := passed.FindString(out); counts != "" {
		return fmt.Sprintf("%s, %d fail", counts, strings.Count(out, "\nFAIL:")+strings.Count(out, "\nERROR:"))
	}
	if err != nil || !strings.Contains(out, p.prints) {
		return "fails"
	}
	return "passes"
}
