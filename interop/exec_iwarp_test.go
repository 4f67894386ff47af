//go:build interop && linux

package interop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// iwarpUnchanged are programs that run over iWARP: with siw's provider at both ends, on Linux's siw at one, under softrdma
// exec at the other.
var iwarpUnchanged = []unchanged{
	{argv: []string{"ib_write_bw", "-R", "-F", "-n", "100"}},
	{argv: []string{"ib_read_bw", "-R", "-F", "-n", "100"}},
	{argv: []string{"ib_send_bw", "-R", "-F", "-n", "100"}},
	{argv: []string{"ib_write_lat", "-R", "-F", "-n", "100"}},
	{argv: []string{"ib_send_lat", "-R", "-F", "-n", "100"}},
	{argv: []string{"rping", "-C", "20", "-V"}},
	{argv: []string{"ucmatose", "-C", "20"}},
}

// iwarpLine is the command line of an end; peer is the server's address at the client, in a guest says where it is.
func (u *unchanged) iwarpLine(peer, own string, guest bool, port int) []string {
	argv := append(slices.Clone(u.argv), "-p", strconv.Itoa(port))
	perftest := strings.HasPrefix(u.argv[0], "ib_")
	if perftest && guest {
		argv = append(argv, "-d", "siw0") // else it looks at rxe0
	}
	switch {
	case perftest && peer != "":
		return append(argv, peer)
	case perftest:
		return argv
	case u.argv[0] == "rping" && peer != "":
		return append(argv, "-c", "-a", peer)
	case u.argv[0] == "rping":
		return append(argv, "-s", "-a", own)
	case peer != "":
		return append(argv, "-s", peer)
	}
	return append(argv, "-b", own)
}

// A meeting is two ends of a program: the server's has been started, the client's will be.
type meeting struct {
	server    *end
	listening func(context.Context) error
	client    func() *end
}

// iwarpTries is how often a program may be tried. Perftest's server listens twice, one after the other, and its client does not wait: it
// comes too early for a server that is emulated. And siw may stand still, see siwTries.
const iwarpTries = 2 * siwTries

// iwarpMeets runs a program's ends against each other.
func iwarpMeets(t *testing.T, start func(ctx context.Context, u *unchanged, port int) meeting) {
	for _, u := range iwarpUnchanged {
		t.Run(strings.Join(u.argv, "_"), func(t *testing.T) {
			for try := 1; ; try++ {
				ctx := within(t, execPatience)
				err := start(ctx, &u, nextPort()).hold(ctx)
				if err == nil {
					return
				}
				if t.Log(err); try == iwarpTries {
					t.Fatalf("failed %d times", try)
				}
			}
		})
	}
}

// hold runs the client and waits for both.
func (m meeting) hold(ctx context.Context) error {
	defer m.server.kill()
	if err := m.listening(ctx); err != nil {
		return err
	}
	client := m.client()
	defer client.kill()
	for _, e := range []*end{client, m.server} {
		select {
		case <-e.done:
			if e.err != nil {
				return fmt.Errorf("%w:\n%s", e.err, tail(e.said(), 1500))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func TestExecIWARPProgramsServeSiw(t *testing.T) {
	lab := openLab(t)
	softrdma, g := execCommand(t, lab), lab.Guests[0]
	iwarpMeets(t, func(ctx context.Context, u *unchanged, port int) meeting {
		line := append([]string{softrdma, "exec", "-d", "iwarp:" + HostIWARPv4, "--"}, u.iwarpLine("", HostIWARPv4, false, port)...)
		return meeting{
			startHost(ctx, t, lab, line...), func(ctx context.Context) error { return lab.WaitListen(ctx, port) },
			func() *end { return startGuest(ctx, t, g, u.iwarpLine(HostIWARPv4, g.IWARPv4, true, port)...) },
		}
	})
	checkIdle(within(t, execPatience), t, g, cmPatience)
}

func TestSiwServesExecIWARPPrograms(t *testing.T) {
	lab := openLab(t)
	softrdma, g := execCommand(t, lab), lab.Guests[0]
	iwarpMeets(t, func(ctx context.Context, u *unchanged, port int) meeting {
		line := append([]string{softrdma, "exec", "-d", "iwarp:" + HostIWARPv4, "--"}, u.iwarpLine(g.IWARPv4, HostIWARPv4, false, port)...)
		return meeting{
			startGuest(ctx, t, g, u.iwarpLine("", g.IWARPv4, true, port)...), func(ctx context.Context) error { return g.WaitListen(ctx, port) },
			func() *end { return startHost(ctx, t, lab, line...) },
		}
	})
	checkIdle(within(t, execPatience), t, g, cmPatience)
}

// TestSiwProgramsAgainstItself shows that the runs are fair.
func TestSiwProgramsAgainstItself(t *testing.T) {
	lab := openLab(t)
	a, b := lab.Guests[0], lab.Guests[1]
	iwarpMeets(t, func(ctx context.Context, u *unchanged, port int) meeting {
		return meeting{
			startGuest(ctx, t, b, u.iwarpLine("", b.IWARPv4, true, port)...), func(ctx context.Context) error { return b.WaitListen(ctx, port) },
			func() *end { return startGuest(ctx, t, a, u.iwarpLine(b.IWARPv4, a.IWARPv4, true, port)...) },
		}
	})
}
