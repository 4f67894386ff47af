//go:build interop && linux

package suites

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// killTimeLimit is how long an end may take to learn that its peer was killed.
const killTimeLimit = time.Minute

// When a program of Linux is killed in mid transfer, its kernel ends the connection: rxe's connection manager sends a
// DREQ, siw's TCP a FIN or a reset.
func TestCMSoftrdmaLearnsThatLinuxWasKilled(t *testing.T) { linuxWasKilled(t, network{}) }

func TestIWARPSoftrdmaLearnsThatSiwWasKilled(t *testing.T) { linuxWasKilled(t, network{iwarp: true}) }

func linuxWasKilled(t *testing.T, n network) {
	l := openLab(t)
	softrdma := program(t, l, "cmd/softrdma")
	cmpeer := n.cmpeer(t, l)
	g := l.Guests[0]
	var disconnected, endOfStream []string // what softrdma says; over iWARP that depends on where the reset comes
	if !n.iwarp {
		disconnected, endOfStream = []string{"disconnected by " + n.guest(g)}, []string{"EOF"}
	}
	t.Run("rping_client", func(t *testing.T) {
		ctx := within(t, 3*cmTimeLimit)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, softrdma, "rping", "-s", "-a", n.device(), "-p", port, "-v")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := peers.StartGuest(ctx, t, g, "rping", "-c", "-a", n.host(), "-p", port)
		// A client without a count ends between two pings in the same way, so the server may call it a success.
		killInMidTransfer(ctx, t, client, server, "rdma-ping-10:").Wait(t, killTimeLimit)
	})
	t.Run("rping_server", func(t *testing.T) {
		ctx := within(t, 3*cmTimeLimit)
		port := lab.NextPort()
		server := peers.StartGuest(ctx, t, g, "rping", "-s", "-a", n.guest(g), "-p", strconv.Itoa(port))
		if err := g.WaitRDMAListen(ctx, port); err != nil {
			t.Fatal(err)
		}
		client := peers.StartHost(ctx, t, l, softrdma, "rping", "-c", "-I", n.device(), "-a", n.guest(g), "-p", strconv.Itoa(port), "-v")
		killInMidTransfer(ctx, t, server, client, "rdma-ping-10:").Fails(t, killTimeLimit, disconnected...)
	})
	t.Run("rstream_client", func(t *testing.T) {
		ctx := within(t, 3*cmTimeLimit)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, append(cmpeer, "rstream", "-b", n.host(), "-p", port, "-S", "65536", "-C", "1000000")...)
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := peers.StartGuest(ctx, t, g, "rstream", "-s", n.host(), "-p", port, "-S", "65536", "-C", "1000000", "-T", "v")
		killInMidTransfer(ctx, t, client, server, "connected with").Fails(t, killTimeLimit, endOfStream...)
	})
	n.awaitIdle(within(t, cmTimeLimit), t, g)
}

// killInMidTransfer kills a program after softrdma's has printed some words and a little more was transferred. It waits
// for the end of softrdma's program and returns that.
func killInMidTransfer(ctx context.Context, t *testing.T, victim, softrdma *peers.Program, words string) *peers.Program {
	t.Helper()
	if err := softrdma.AwaitOutput(ctx, words); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	victim.Kill()
	began := time.Now()
	softrdma.Wait(t, killTimeLimit)
	t.Logf("learned after %v: %s", time.Since(began).Round(time.Millisecond), peers.LastLine(softrdma.Said()))
	return softrdma
}

// TestCMLinuxLearnsThatSoftrdmaWasKilled kills softrdma's program while Linux sends to it. No message ends the connection.
// A sender learns of the end when the timeout and the retry count that softrdma asked for have passed. It asks for 5
// retries, because Linux's rxe takes 7 as unlimited. A program that only waits for data, such as rping, does not learn
// of the end.
func TestCMLinuxLearnsThatSoftrdmaWasKilled(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmTimeLimit)
	port := lab.NextPort()
	options := []string{"-p", strconv.Itoa(port), "-S", "100000", "-C", "300"}
	// Output to a pipe would stay in a buffer otherwise.
	server := peers.StartGuest(ctx, t, g, append([]string{"stdbuf", "-oL", "ucmatose", "-b", g.IPv4}, options...)...)
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	client := peers.StartHost(ctx, t, l, append([]string{cmpeer, "ucmatose", "-s", g.IPv4, "-a", "16"}, options...)...)
	if err := client.AwaitOutput(ctx, "connected with"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if strings.Contains(server.Said(), "data transfers complete") {
		t.Fatal("the transfer was over too soon to be interrupted")
	}
	client.Kill()
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, killTimeLimit)
	defer cancel()
	// Its sends fail, which ucmatose ignores. It continues to the end, where it disconnects from the dead peer.
	if err := server.AwaitOutput(bounded, "cmatose: disconnecting"); err != nil {
		t.Fatal(err)
	}
	t.Logf("learned after %v", time.Since(began).Round(time.Millisecond))
	server.Kill()
	<-server.Done
	peers.AwaitIdle(ctx, t, g, cmTimeLimit)
}

// TestIWARPSiwLearnsThatSoftrdmaWasKilled kills softrdma while siw waits for its answer. The kernel resets the TCP
// connection, so siw learns of the end at once, unlike rxe.
func TestIWARPSiwLearnsThatSoftrdmaWasKilled(t *testing.T) {
	l := openLab(t)
	softrdma := program(t, l, "cmd/softrdma")
	g := l.Guests[0]
	ctx := within(t, 3*cmTimeLimit)
	port := strconv.Itoa(lab.NextPort())
	server := peers.StartHost(ctx, t, l, softrdma, "rping", "-s", "-a", "iwarp:"+lab.HostIWARPv4, "-p", port, "-v")
	if err := server.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	client := peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIWARPv4, "-p", port)
	killInMidTransfer(ctx, t, server, server, "rdma-ping-10:")
	if err := client.AwaitOutput(within(t, killTimeLimit), "DISCONNECT EVENT"); err != nil {
		t.Error(err)
	}
	// rping sometimes hangs in its clean-up then, waiting for a completion thread that nothing wakes.
	select {
	case <-client.Done:
	case <-time.After(3 * time.Second):
		t.Log("rping knows, and does not end")
		client.Kill()
	}
	peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmTimeLimit)
}
