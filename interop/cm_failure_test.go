//go:build interop && linux

package interop

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fails waits for a program's end with a status other than 0, and for words that it says then.
func (e *end) fails(t *testing.T, limit time.Duration, words ...string) {
	t.Helper()
	if err := e.ends(t, limit); err == nil {
		t.Errorf("%s: it succeeded; it said:\n%s", e.name, tail(e.said(), 1500))
	}
	for _, w := range words {
		if !strings.Contains(e.said(), w) {
			t.Errorf("%s: it does not say %q, but:\n%s", e.name, w, tail(e.said(), 1500))
		}
	}
}

// TestCMLinuxLearnsWhySoftrdmaRejects calls a softrdma that listens elsewhere, and one that takes fewer connections.
func TestCMLinuxLearnsWhySoftrdmaRejects(t *testing.T) {
	lab := openLab(t)
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	t.Run("nobody_listens", func(t *testing.T) {
		ctx := within(t, 2*cmPatience)
		there := strconv.Itoa(nextPort())
		server := startHost(ctx, t, lab, cmpeer, "rdma_server", "-s", HostIPv4, "-p", there)
		if err := server.awaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		elsewhere := strconv.Itoa(nextPort())
		// IBTA 12.6.7.2: 8 is an invalid service ID. IBTA 12.11.2: 1 is a service ID that is not supported.
		startGuest(ctx, t, g, "rping", "-c", "-a", HostIPv4, "-p", elsewhere, "-C", "1").fails(t, cmPatience, "RDMA_CM_EVENT_REJECTED, error 8")
		startGuest(ctx, t, g, "udaddy", "-s", HostIPv4).fails(t, cmPatience, "RDMA_CM_EVENT_UNREACHABLE, error: 1")
		startGuest(ctx, t, g, "rdma_client", "-s", HostIPv4, "-p", there).succeeds(t, cmPatience)
		server.succeeds(t, cmPatience)
	})
	t.Run("one_connection_too_many", func(t *testing.T) {
		ctx := within(t, 2*cmPatience)
		port := strconv.Itoa(nextPort())
		server := startHost(ctx, t, lab, cmpeer, "ucmatose", "-b", HostIPv4, "-p", port, "-C", "0", "-rejections", "1")
		if err := server.awaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		// 28: the consumer rejects.
		startGuest(ctx, t, g, "ucmatose", "-s", HostIPv4, "-p", port, "-C", "0", "-c", "2").fails(t, cmPatience, "RDMA_CM_EVENT_REJECTED, error: 28")
		server.succeeds(t, cmPatience)
	})
	checkIdle(within(t, cmPatience), t, g, cmPatience)
}

// TestCMSoftrdmaNamesWhyLinuxRejects is the reverse.
func TestCMSoftrdmaNamesWhyLinuxRejects(t *testing.T) {
	lab := openLab(t)
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	ctx := within(t, 3*cmPatience)
	nobody := strconv.Itoa(nextPort())
	startHost(ctx, t, lab, cmpeer, "rdma_client", "-s", g.IPv4, "-p", nobody).fails(t, cmPatience, "no listener for the service ID", "reason 8")
	startHost(ctx, t, lab, cmpeer, "udaddy", "-s", g.IPv4).fails(t, cmPatience, "service ID")
	startHost(ctx, t, lab, cmpeer, "iperf3", "-c", g.IPv4, "-p", nobody).fails(t, cmPatience, "connection refused")

	port := nextPort()
	server := startGuest(ctx, t, g, "ucmatose", "-b", g.IPv4, "-p", strconv.Itoa(port), "-C", "0")
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	startHost(ctx, t, lab, cmpeer, "ucmatose", "-s", g.IPv4, "-p", strconv.Itoa(port), "-C", "0", "-c", "2").fails(t, cmPatience, "reason 28")
	server.ends(t, cmPatience) // it calls itself failed when it rejects
	checkIdle(ctx, t, g, cmPatience)
}

// TestCMSoftrdmaGivesUpAnUnansweredRequest calls an address that nobody has, and a server that does not come to accept.
func TestCMSoftrdmaGivesUpAnUnansweredRequest(t *testing.T) {
	lab := openLab(t)
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	ctx := within(t, 3*cmPatience)
	began := time.Now()
	startHost(ctx, t, lab, cmpeer, "rdma_client", "-s", NobodyIPv4, "-limit", "2s").fails(t, cmPatience, NobodyIPv4)
	t.Logf("an address that nobody has: %v", time.Since(began).Round(time.Millisecond))

	port := nextPort()
	p, err := g.Start(ctx, "rdma_server", "-s", g.IPv4, "-p", strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGSTOP)
	startHost(ctx, t, lab, cmpeer, "rdma_client", "-s", g.IPv4, "-p", strconv.Itoa(port), "-limit", "2s").fails(t, cmPatience, "deadline exceeded")
	p.Signal(syscall.SIGCONT)
	// The server finds a request whose client has gone: rdma_accept fails, or nothing comes any more.
	time.Sleep(200 * time.Millisecond)
	p.Kill()
	p.Wait(ctx)
	checkIdle(ctx, t, g, cmPatience)
}

// killPatience is how long an end may take to learn that its peer was killed.
const killPatience = time.Minute

// TestCMSoftrdmaLearnsThatLinuxWasKilled kills Linux's end in mid transfer. Its kernel says goodbye.
func TestCMSoftrdmaLearnsThatLinuxWasKilled(t *testing.T) {
	lab := openLab(t)
	softrdma := program(t, lab, "cmd/softrdma")
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	t.Run("rping_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(nextPort())
		server := startHost(ctx, t, lab, softrdma, "rping", "-s", "-a", HostIPv4, "-p", port, "-v")
		if err := server.awaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := startGuest(ctx, t, g, "rping", "-c", "-a", HostIPv4, "-p", port)
		// Between two pings that is how a client ends which was given no count: the server may call it a success.
		killInMidTransfer(ctx, t, client, server, "rdma-ping-10:").ends(t, killPatience)
	})
	t.Run("rping_server", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		server, port := servePings(ctx, t, g)
		client := startHost(ctx, t, lab, softrdma, "rping", "-c", "-a", g.IPv4, "-p", port, "-v")
		killInMidTransfer(ctx, t, server, client, "rdma-ping-10:").fails(t, killPatience, "disconnected by "+g.IPv4)
	})
	t.Run("rstream_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(nextPort())
		server := startHost(ctx, t, lab, cmpeer, "rstream", "-b", HostIPv4, "-p", port, "-S", "65536", "-C", "1000000")
		if err := server.awaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := startGuest(ctx, t, g, "rstream", "-s", HostIPv4, "-p", port, "-S", "65536", "-C", "1000000", "-T", "v")
		killInMidTransfer(ctx, t, client, server, "connected with").fails(t, killPatience, "EOF")
	})
	checkIdle(within(t, cmPatience), t, g, cmPatience)
}

// servePings starts Linux's rping server.
func servePings(ctx context.Context, t *testing.T, g *Guest) (*end, string) {
	t.Helper()
	port := nextPort()
	server := startGuest(ctx, t, g, "rping", "-s", "-a", g.IPv4, "-p", strconv.Itoa(port))
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	return server, strconv.Itoa(port)
}

// killInMidTransfer kills an end once softrdma's has said some words and a little more was transferred. It waits for the
// end of softrdma's, which it returns.
func killInMidTransfer(ctx context.Context, t *testing.T, victim, softrdma *end, words string) *end {
	t.Helper()
	if err := softrdma.awaitWords(ctx, words); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	victim.kill()
	began := time.Now()
	softrdma.ends(t, killPatience)
	t.Logf("learned after %v: %s", time.Since(began).Round(time.Millisecond), lastLine(softrdma.said()))
	return softrdma
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// TestCMLinuxLearnsThatSoftrdmaWasKilled kills softrdma's end while Linux sends to it. Nobody says goodbye: who sends
// learns it from what is not acknowledged, as soon as the timeout and the count that softrdma asked for have passed. It
// asks for 5 repetitions, because Linux's rxe takes 7 for no end and then never learns; and who only waits for data,
// like rping, does not learn it either.
func TestCMLinuxLearnsThatSoftrdmaWasKilled(t *testing.T) {
	lab := openLab(t)
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	ctx := within(t, 3*cmPatience)
	port := nextPort()
	options := []string{"-p", strconv.Itoa(port), "-S", "100000", "-C", "300"}
	// A line that goes to a pipe must not wait in a buffer.
	server := startGuest(ctx, t, g, append([]string{"stdbuf", "-oL", "ucmatose", "-b", g.IPv4}, options...)...)
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	client := startHost(ctx, t, lab, append([]string{cmpeer, "ucmatose", "-s", g.IPv4, "-a", "16"}, options...)...)
	if err := client.awaitWords(ctx, "connected with"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if strings.Contains(server.said(), "data transfers complete") {
		t.Fatal("the transfer was over too soon to be interrupted")
	}
	client.kill()
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	// Its sends fail, which ucmatose does not look at: it goes on to the end, where it asks a dead peer to disconnect.
	if err := server.awaitWords(bounded, "cmatose: disconnecting"); err != nil {
		t.Fatal(err)
	}
	t.Logf("learned after %v", time.Since(began).Round(time.Millisecond))
	server.kill()
	<-server.done
	checkIdle(ctx, t, g, cmPatience)
}
