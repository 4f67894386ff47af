//go:build interop && linux

package suites

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
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

// iwarpLine returns the command line of an end. Peer is the server's address, for the client; guest is set in a guest.
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
	server    *peers.Program
	listening func(context.Context) error
	client    func() *peers.Program
}

// iwarpTries is how often a program may be tried. Perftest's server listens a second time after its first connection, and
// its client does not wait for that: on an emulated server it comes too early. And siw may stop, see siwTries.
const iwarpTries = 2 * siwTries

// iwarpMeets runs a program's ends against each other.
func iwarpMeets(t *testing.T, start func(ctx context.Context, u *unchanged, port int) meeting) {
	for _, u := range iwarpUnchanged {
		t.Run(strings.Join(u.argv, "_"), func(t *testing.T) {
			err := lab.Retry(t, iwarpTries, lab.AnyError, func(int) error {
				ctx := within(t, execTimeLimit)
				return start(ctx, &u, lab.NextPort()).hold(ctx)
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// hold runs the client and waits for both.
func (m meeting) hold(ctx context.Context) error {
	defer m.server.Kill()
	if err := m.listening(ctx); err != nil {
		return err
	}
	client := m.client()
	defer client.Kill()
	for _, e := range []*peers.Program{client, m.server} {
		select {
		case <-e.Done:
			if e.Err != nil {
				return fmt.Errorf("%w:\n%s", e.Err, lab.Tail(e.Said(), 1500))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func TestExecIWARPProgramsServeSiw(t *testing.T) {
	l := openLab(t)
	softrdma, g := execCommand(t, l), l.Guests[0]
	iwarpMeets(t, func(ctx context.Context, u *unchanged, port int) meeting {
		line := append([]string{softrdma, "exec", "-d", "iwarp:" + lab.HostIWARPv4, "--"}, u.iwarpLine("", lab.HostIWARPv4, false, port)...)
		return meeting{
			peers.StartHost(ctx, t, l, line...), func(ctx context.Context) error { return l.WaitListen(ctx, port) },
			func() *peers.Program {
				return peers.StartGuest(ctx, t, g, u.iwarpLine(lab.HostIWARPv4, g.IWARPv4, true, port)...)
			},
		}
	})
	peers.AwaitIdle(within(t, execTimeLimit), t, g, cmTimeLimit)
}

func TestSiwServesExecIWARPPrograms(t *testing.T) {
	l := openLab(t)
	softrdma, g := execCommand(t, l), l.Guests[0]
	iwarpMeets(t, func(ctx context.Context, u *unchanged, port int) meeting {
		line := append([]string{softrdma, "exec", "-d", "iwarp:" + lab.HostIWARPv4, "--"}, u.iwarpLine(g.IWARPv4, lab.HostIWARPv4, false, port)...)
		return meeting{
			peers.StartGuest(ctx, t, g, u.iwarpLine("", g.IWARPv4, true, port)...), func(ctx context.Context) error { return g.WaitListen(ctx, port) },
			func() *peers.Program { return peers.StartHost(ctx, t, l, line...) },
		}
	})
	peers.AwaitIdle(within(t, execTimeLimit), t, g, cmTimeLimit)
}

// TestSiwProgramsAgainstItself shows that the runs are fair.
func TestSiwProgramsAgainstItself(t *testing.T) {
	l := openLab(t)
	a, b := l.Guests[0], l.Guests[1]
	iwarpMeets(t, func(ctx context.Context, u *unchanged, port int) meeting {
		return meeting{
			peers.StartGuest(ctx, t, b, u.iwarpLine("", b.IWARPv4, true, port)...), func(ctx context.Context) error { return b.WaitListen(ctx, port) },
			func() *peers.Program {
				return peers.StartGuest(ctx, t, a, u.iwarpLine(b.IWARPv4, a.IWARPv4, true, port)...)
			},
		}
	})
}
