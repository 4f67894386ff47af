package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"softrdma/internal/cma"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

// The tests' addresses: a server's and a client's, which neither other packages nor other runs
// of these tests use.
var serverIP, clientIP = ip(1), ip(2)

func ip(n int) string { return fmt.Sprintf("127.9.%d.%d", os.Getpid()%256, n) }

// testProtocol is the protocol of the tests' devices; see TestIWARPIsTheSame.
var testProtocol verbs.Protocol

// deviceNamed returns package verbs' name of the tests' device of an address.
func deviceNamed(ip string) string {
	if testProtocol == verbs.IWARP {
		return "iwarp:" + ip
	}
	return ip
}

// deviceAddr returns the address and port of the tests' device.
func deviceAddr(ip string) netip.AddrPort {
	if testProtocol == verbs.IWARP {
		return addr(ip, 0)
	}
	return addr(ip, verbs.Port)
}

// timeLimit is how long a test waits for an event.
const timeLimit = 30 * time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(timeLimit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("expected %s, found not in %v", what, timeLimit)
		}
	}
}

// A census counts the resources that connections need.
type census struct {
	manager    cma.Counts
	devices    int
	goroutines int
	files      int
}

func count() census {
	c := census{manager: registry.Process.Connections(openDevice).Count(), goroutines: runtime.NumGoroutine()}
	c.devices = registry.Process.Count()
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		c.files = len(list)
	}
	return c
}

// leavesNothing checks at the end of a test that everything is as before it.
func leavesNothing(t testing.TB) {
	t.Helper()
	before := count()
	t.Cleanup(func() {
		var after census
		for end := time.Now().Add(timeLimit); ; time.Sleep(5 * time.Millisecond) {
			// Timers of the runtime and of testing may end goroutines and files meanwhile:
			// fewer are not a leak.
			after = count()
			if after.manager == before.manager && after.devices == before.devices &&
				after.goroutines <= before.goroutines && after.files <= before.files {
				return
			}
			if time.Now().After(end) {
				break
			}
		}
		b := make([]byte, 1<<20)
		t.Errorf("expected %+v, found %+v\n%s", before, after, b[:runtime.Stack(b, true)])
	})
}

// addr returns an address and port of a loopback device.
func addr(ip string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port)
}

// client returns a dialer on the client's address with short timeouts.
func client() Dialer {
	return Dialer{Local: addr(clientIP, 0), Protocol: testProtocol, QP: verbs.QPConfig{MaxInline: 64}}
}

func listen(t testing.TB, cfg ListenConfig) *Listener {
	t.Helper()
	cfg.Protocol = testProtocol
	if cfg.QP.MaxInline == 0 {
		cfg.QP.MaxInline = 64
	}
	l, err := Listen(serverIP+":0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, l) })
	return l
}

func closed(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// accepted runs Accept concurrently with the test.
func accepted(t testing.TB, l *Listener) func() *Conn {
	type result struct {
		c   *Conn
		err error
	}
	got := make(chan result, 1)
	ctx := within(t)
	go func() {
		c, err := l.Accept(ctx)
		got <- result{c, err}
	}()
	return func() *Conn {
		t.Helper()
		r := <-got
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.c
	}
}

// connected makes a connection, both of whose ends are closed with the test.
func connected(t testing.TB, l *Listener, d Dialer) (c, s *Conn) {
	t.Helper()
	server := accepted(t, l)
	c, err := d.Dial(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s = server()
	t.Cleanup(func() {
		closed(t, c)
		closed(t, s)
	})
	return c, s
}

// talk sends a message from one connection to the other and checks it.
func talk(t testing.TB, from, to *Conn, words string) {
	t.Helper()
	pd, err := to.PD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := mr.Deregister(); err != nil {
			t.Error(err)
		}
	}()
	if err := to.QP().PostRecv(verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}); err != nil {
		t.Fatal(err)
	}
	if err := from.QP().PostSend(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, Inline: []byte(words)}); err != nil {
		t.Fatal(err)
	}
	wc := completion(t, to.RecvCQ())
	if found := string(mr.Bytes()[:wc.ByteLen]); found != words {
		t.Errorf("expected %q, found %q", words, found)
	}
	completion(t, from.SendCQ())
}

// completion takes the next successful completion.
func completion(t testing.TB, cq *verbs.CQ) verbs.WC {
	t.Helper()
	if err := cq.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if n, err := cq.Poll(wc[:]); err != nil || n != 1 {
		t.Fatalf("found %d completions, %v", n, err)
	}
	if err := wc[0].Err(); err != nil {
		t.Fatal(err)
	}
	return wc[0]
}

// ended waits until a connection has ended, and checks why.
func ended(t testing.TB, c *Conn, want error) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(timeLimit):
		t.Fatalf("the connection to %v is still established", c.RemoteAddr())
	}
	if err := c.Err(); !errors.Is(err, want) {
		t.Errorf("expected %v, found %v", want, err)
	}
	if s := c.QP().State(); s != verbs.Err {
		t.Errorf("queue pair: expected %v, found %v", verbs.Err, s)
	}
}

// wants checks that an error contains all words.
func wants(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(fmt.Sprint(err), w) {
			t.Errorf("expected %q in the error, found %v", w, err)
		}
	}
}

func isReject(t testing.TB, err error) *RejectedError {
	t.Helper()
	var r *RejectedError
	if !errors.As(err, &r) {
		t.Fatalf("expected a *RejectedError, found %v", err)
	}
	return r
}

// TestMain opens the runtime's network poller, which is opened once and kept, before anything
// is counted.
func TestMain(m *testing.M) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
