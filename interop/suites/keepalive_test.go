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
	g      *lab.Guest
	server *peers.Program
	client *peers.Program
}

// startKeepalive connects and returns when the connection stands.
func startKeepalive(ctx context.Context, t *testing.T, n network, timeout, pause time.Duration) *keepaliveRun {
	t.Helper()
	l := openLab(t)
	r := &keepaliveRun{g: l.Guests[0]}
	argv, addr := n.cmpeer(t, l), n.guest(r.g)
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

func TestKeepaliveRxeAnswersProbes(t *testing.T)  { keepaliveAnswered(t, network{}) }
func TestKeepaliveSiwAnswersProbes(t *testing.T)  { keepaliveAnswered(t, network{iwarp: true}) }
func TestKeepaliveNamesAVanishedRxe(t *testing.T) { keepaliveVanished(t, network{}) }
func TestKeepaliveNamesAVanishedSiw(t *testing.T) { keepaliveVanished(t, network{iwarp: true}) }

// keepaliveAnswered leaves a connection idle for longer than its peer may be silent. It stays up only if Linux answers
// the probes, and the exchange after it shows that they have changed nothing.
func keepaliveAnswered(t *testing.T, n network) {
	const timeout, pause = 4 * time.Second, 10 * time.Second
	ctx := within(t, 2*cmTimeLimit)
	r := startKeepalive(ctx, t, n, timeout, pause)
	r.client.Succeeds(t, cmTimeLimit)
	r.server.Succeeds(t, cmTimeLimit)
	_, said, _ := strings.Cut(r.client.Said(), "idle for "+pause.String())
	probes := 0
	if _, err := fmt.Sscanf(said, ", %d probes", &probes); err != nil || probes < int(pause/timeout)+1 {
		t.Errorf("%d probes were sent, expected at least %d; the client said:\n%s", probes, int(pause/timeout)+1, r.client.Said())
	}
	t.Logf("%d probes", probes)
	n.awaitIdle(ctx, t, r.g)
}

// keepaliveVanished cuts the guest off the network while a connection is idle.
func keepaliveVanished(t *testing.T, n network) {
	const timeout = 2 * time.Second
	ctx := within(t, 3*cmTimeLimit)
	r := startKeepalive(ctx, t, n, timeout, 50*time.Second)
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
	r.client.Fails(t, cmTimeLimit, "while idle: ", "PEER_SILENT")
	t.Logf("learned within %v", time.Since(began).Round(time.Millisecond))
	plug()
	r.server.Kill()
	<-r.server.Done
	n.awaitIdle(ctx, t, r.g)
}
