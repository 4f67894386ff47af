//go:build interop && linux

package suites

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// pingpong is a run of ibv_{rc,uc,ud,srq}_pingpong or of softrdma pingpong, which takes the same options.
type pingpong struct {
	kind   string // rc, uc, ud or srq
	size   int
	mtu    int // 0 for UD, whose path MTU is the port's
	n      int
	events bool
	v6     bool
}

func (p pingpong) String() string {
	name := fmt.Sprintf("%s/%dB", p.kind, p.size)
	if p.mtu != 0 {
		name += fmt.Sprintf("_mtu%d", p.mtu)
	}
	if p.events {
		name += "_events"
	}
	if p.v6 {
		return name + "_ipv6"
	}
	return name
}

func (p pingpong) options(port int) []string {
	o := []string{"-p", strconv.Itoa(port), "-s", strconv.Itoa(p.size), "-n", strconv.Itoa(p.n)}
	if p.mtu != 0 {
		o = append(o, "-m", strconv.Itoa(p.mtu))
	}
	if p.events {
		o = append(o, "-e")
	}
	if p.kind == "srq" {
		o = append(o, "-q", "4")
	}
	return o
}

// pingpongs are all runs: every size at one MTU, every MTU at one size, sleeping on events, and IPv6.
func pingpongs() []pingpong {
	var all []pingpong
	for _, kind := range []string{"rc", "uc", "srq"} {
		for _, size := range []int{1, 4096, 65536, 1 << 20} {
			all = append(all, pingpong{kind: kind, size: size, mtu: 1024, n: iterations(size)})
		}
		for _, mtu := range []int{256, 512, 2048, 4096} {
			all = append(all, pingpong{kind: kind, size: 10001, mtu: mtu, n: 20})
		}
		all = append(all,
			pingpong{kind: kind, size: 4096, mtu: 1024, n: 50, events: true},
			pingpong{kind: kind, size: 10001, mtu: 1024, n: 20, v6: true})
	}
	for _, size := range []int{1, 1000, 4096} {
		all = append(all, pingpong{kind: "ud", size: size, n: 50})
	}
	return append(all,
		pingpong{kind: "ud", size: 2048, n: 50, events: true},
		pingpong{kind: "ud", size: 2048, n: 50, v6: true})
}

// iterations keeps a run to a few megabytes.
func iterations(size int) int { return max(3, min(100, 2<<20/(size+1))) }

// player runs one end of a pingpong: peer is the server's address, or empty on the server.
type player interface {
	play(ctx context.Context, p pingpong, port int, peer string) (said string, err error)
	waitListen(ctx context.Context, port int) error
	address() string
}

// The ends exchange their queue pairs over IPv4, whatever the GIDs are, because the servers of ibv_*_pingpong listen on
// IPv4.

type rxePlayer struct{ g *lab.Guest }

func (r rxePlayer) address() string { return r.g.IPv4 }

func (r rxePlayer) waitListen(ctx context.Context, port int) error { return r.g.WaitListen(ctx, port) }

func (r rxePlayer) play(ctx context.Context, p pingpong, port int, peer string) (string, error) {
	argv := append([]string{"ibv_" + p.kind + "_pingpong", "-d", "rxe0", "-g", strconv.Itoa(peers.GIDIndex(p.v6))}, p.options(port)...)
	if peer != "" {
		argv = append(argv, peer)
	}
	out, err := r.g.Run(ctx, argv...)
	return out.Stdout + out.Stderr, err
}

type softrdmaPlayer struct {
	lab  *lab.Lab
	path string
}

func (s softrdmaPlayer) address() string { return lab.HostIPv4 }

func (s softrdmaPlayer) waitListen(ctx context.Context, port int) error {
	return s.lab.WaitListen(ctx, port)
}

func (s softrdmaPlayer) play(ctx context.Context, p pingpong, port int, peer string) (string, error) {
	device := lab.HostIPv4
	if p.v6 {
		device = lab.HostIPv6
	}
	argv := append([]string{s.path, "pingpong", "-t", p.kind, "-d", device}, p.options(port)...)
	if peer != "" {
		argv = append(argv, peer)
	}
	cmd := s.lab.Host(ctx, argv...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return said.String(), fmt.Errorf("%s: %w; it said:\n%s", strings.Join(argv, " "), errors.Join(err, context.Cause(ctx)), lab.Tail(said.String(), 1500))
	}
	return said.String(), nil
}

// attempts is how often a pingpong is played if Linux gets stuck.
const attempts = 3

// playPingpong runs both ends and checks that both report their exchanges. It tries again where Linux is stuck by its
// own counters.
func playPingpong(t *testing.T, server, client player, p pingpong) {
	t.Helper()
	err := lab.Retry(t, attempts, isStuck, func(int) error { return meet(t, runTimeLimit, server, client, p) })
	if err != nil {
		t.Error(err)
	}
}

func isStuck(err error) bool {
	stuck := (*lab.StuckError)(nil)
	return errors.As(err, &stuck)
}

// The time limits of a run, and of its second end after the first has failed. A run takes a second on an idle machine, and
// up to half a minute on a busy one. softrdma pingpong gives up earlier, when nothing comes for 10 s.
const (
	runTimeLimit = 3 * time.Minute
	rxeTimeLimit = time.Minute // of rxe at both ends, which would not end by itself
	endTimeLimit = 5 * time.Second
)

// An ended is how one end of a pingpong ended.
type ended struct {
	who, said string
	err       error
}

func (e ended) failure() error {
	if e.err == nil {
		return nil
	}
	return fmt.Errorf("the %s: %w", e.who, e.err)
}

// meet runs both ends and returns what went wrong.
func meet(t *testing.T, timeLimit time.Duration, server, client player, p pingpong) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(within(t, timeLimit))
	defer cancel(nil)
	look, err := watch(ctx, server, client, p)
	if err != nil {
		return err
	}
	port := lab.NextPort()
	ends := make(chan ended, 2)
	play := func(who string, end player, peer string) {
		said, err := end.play(ctx, p, port, peer)
		ends <- ended{who, said, err}
	}
	go play("server", server, "")
	listening, stop := context.WithTimeoutCause(ctx, time.Minute, errors.New("a minute is over"))
	defer stop()
	listenErr := make(chan error, 1)
	go func() { listenErr <- server.waitListen(listening, port) }()
	select {
	case err := <-listenErr:
		if err != nil {
			return fmt.Errorf("the server: %w", err)
		}
	case s := <-ends:
		return fmt.Errorf("the server ended before the client came: %v\n%s", s.err, s.said)
	}
	go play("client", client, server.address())
	first := <-ends
	var looked error
	if first.err != nil {
		looked = look(ctx) // while the other end is still there
		end := time.AfterFunc(endTimeLimit, func() {
			cancel(fmt.Errorf("the %s failed, and %v later this end was still there", first.who, endTimeLimit))
		})
		defer end.Stop()
	}
	second := <-ends
	if err := errors.Join(first.failure(), second.failure(), looked); err != nil {
		return err
	}
	for _, e := range []ended{first, second} {
		if want := fmt.Sprintf("%d iters in", p.n); !strings.Contains(e.said, want) {
			return fmt.Errorf("the %s does not say %q, but:\n%s", e.who, want, e.said)
		}
	}
	return nil
}

// watch begins to watch rxe's end of a run against softrdma. The function that it returns tells, once the run has failed,
// whether Linux is stuck. Only RC repeats messages, and the 16 queue pairs of ibv_srq_pingpong continue without one.
func watch(ctx context.Context, server, client player, p pingpong) (look func(ctx context.Context) error, _ error) {
	serves, isServer := server.(rxePlayer)
	calls, isClient := client.(rxePlayer)
	rxe, judge := calls, lab.StuckClient
	if isServer {
		rxe, judge = serves, lab.StuckServer
	}
	if p.kind != "rc" || isServer == isClient {
		return func(context.Context) error { return nil }, nil
	}
	before, err := rxe.g.Counters(ctx)
	return func(ctx context.Context) error { return rxe.g.CheckStuck(ctx, before, p.n, judge) }, err
}

// TestPingpongRxeAgainstRxe shows that the runs are fair: Linux passes them against itself. On a busy machine it gets stuck
// with itself once in some twenty runs of multi-packet messages (stuck.go), which says nothing of fairness.
func TestPingpongRxeAgainstRxe(t *testing.T) {
	l := openLab(t)
	for _, p := range []pingpong{
		{kind: "rc", size: 1 << 20, mtu: 4096, n: 3},
		{kind: "uc", size: 10001, mtu: 256, n: 20, events: true},
		{kind: "srq", size: 4096, mtu: 1024, n: 20, v6: true},
		{kind: "ud", size: 4096, n: 20},
	} {
		t.Run(p.String(), func(t *testing.T) {
			server, client := rxePlayer{l.Guests[1]}, rxePlayer{l.Guests[0]}
			if err := lab.Retry(t, attempts, lab.AnyError, func(int) error { return meet(t, rxeTimeLimit, server, client, p) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPingpongSoftrdmaServesRxe(t *testing.T) {
	l := openLab(t)
	playAll(t, softrdmaPlayer{l, program(t, l, "cmd/softrdma")}, rxePlayer{l.Guests[0]})
}

func TestPingpongRxeServesSoftrdma(t *testing.T) {
	l := openLab(t)
	playAll(t, rxePlayer{l.Guests[0]}, softrdmaPlayer{l, program(t, l, "cmd/softrdma")})
}

// playAll plays all pingpongs, as long as they do not all hang.
func playAll(t *testing.T, server, client player) {
	const timeLimit = 8 * time.Minute
	deadline := time.Now().Add(timeLimit)
	for _, p := range pingpongs() {
		if time.Now().After(deadline) {
			t.Fatalf("not all pingpongs were played within %v: %v and what comes after it were not", timeLimit, p)
		}
		t.Run(p.String(), func(t *testing.T) { playPingpong(t, server, client, p) })
	}
}
