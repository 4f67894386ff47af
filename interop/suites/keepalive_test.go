//go:build interop && linux

package suites

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// A keepaliveRun is an idle connection of softrdma's to rdma_server in a guest.
type keepaliveRun struct {
	l      *lab.Lab
	g      *lab.Guest
	iwarp  bool
	server *peers.Program
	client *peers.Program
}

// startKeepalive connects and returns when the connection stands.
func startKeepalive(ctx context.Context, t *testing.T, iwarp bool, timeout, pause time.Duration) *keepaliveRun {
	t.Helper()
	l := openLab(t)
	r := &keepaliveRun{l: l, g: l.Guests[0], iwarp: iwarp}
	argv, addr := []string{program(t, l, "interop/peers/cmpeer")}, r.g.IPv4
	if iwarp {
		argv, addr = append(argv, "-iwarp"), r.g.IWARPv4
	}
	port := lab.NextPort()
	r.server = peers.StartGuest(ctx, t, r.g, "rdma_server", "-s", addr, "-p", strconv.Itoa(port))
	if err := r.g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	r.client = peers.StartHost(ctx, t, l, append(argv,
		"rdma_client", "-s", addr, "-p", strconv.Itoa(port), "-peer-timeout", timeout.String(), "-idle", pause.String())...)
	if err := r.client.AwaitOutput(ctx, "connected"); err != nil {
		t.Fatal(err)
	}
	return r
}

// awaitIdle waits until nothing of the connection is left in the guest.
func (r *keepaliveRun) awaitIdle(ctx context.Context, t *testing.T) {
	t.Helper()
	if r.iwarp {
		peers.AwaitDevice(ctx, t, r.g, peers.IdleSiw, cmPatience)
	} else {
		peers.AwaitIdle(ctx, t, r.g, cmPatience)
	}
}

func TestKeepaliveRxeAnswersProbes(t *testing.T)  { keepaliveAnswered(t, false) }
func TestKeepaliveSiwAnswersProbes(t *testing.T)  { keepaliveAnswered(t, true) }
func TestKeepaliveNamesAVanishedRxe(t *testing.T) { keepaliveVanished(t, false) }
func TestKeepaliveNamesAVanishedSiw(t *testing.T) { keepaliveVanished(t, true) }

// keepaliveAnswered leaves a connection idle for longer than its peer may be silent. It stays up only if Linux answers
// the probes, and the exchange after it shows that they have changed nothing.
func keepaliveAnswered(t *testing.T, iwarp bool) {
	const timeout, pause = 4 * time.Second, 10 * time.Second
	ctx := within(t, 2*cmPatience)
	r := startKeepalive(ctx, t, iwarp, timeout, pause)
	r.client.Succeeds(t, cmPatience)
	r.server.Succeeds(t, cmPatience)
	_, said, _ := strings.Cut(r.client.Said(), "idle for "+pause.String())
	probes := 0
	if _, err := fmt.Sscanf(said, ", %d probes", &probes); err != nil || probes < int(pause/timeout)+1 {
		t.Errorf("%d probes were sent, expected at least %d; the client said:\n%s", probes, int(pause/timeout)+1, r.client.Said())
	}
	t.Logf("%d probes", probes)
	r.awaitIdle(ctx, t)
}

// keepaliveVanished cuts the guest off the network while a connection is idle.
func keepaliveVanished(t *testing.T, iwarp bool) {
	const timeout = 2 * time.Second
	ctx := within(t, 3*cmPatience)
	r := startKeepalive(ctx, t, iwarp, timeout, 50*time.Second)
	plug := func() {
		if err := r.g.Plug(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}
	if err := r.g.Unplug(ctx); err != nil {
		plug()
		t.Fatal(err)
	}
	began := time.Now()
	r.client.Fails(t, cmPatience, "while idle: ", "PEER_SILENT")
	t.Logf("learned within %v", time.Since(began).Round(time.Millisecond))
	plug()
	r.server.Kill()
	<-r.server.Done
	r.awaitIdle(ctx, t)
}
