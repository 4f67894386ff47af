package loop

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// runPair runs both ends of a loop in this process and returns the client's
// result.
func runPair(t *testing.T, c Config) Result {
	t.Helper()
	c.Port, c.Segment, c.Seconds, c.Control = FreePort(), 1024, .05, "cubic"
	c.Local, c.Peer = netip.MustParseAddr("127.12.1.1"), netip.MustParseAddr("127.12.1.2")
	s := c
	s.Server, s.Local, s.Peer = true, c.Peer, c.Local
	ready, ended := make(chan any, 1), make(chan error, 1)
	go func() { ended <- Run(t.Context(), &s, func(v any) error { ready <- v; return nil }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("server: %v", err)
	}
	var said []byte
	err := Run(t.Context(), &c, func(v any) (err error) { said, err = json.Marshal(v); return err })
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("server: %v", err)
	}
	var r Result
	if err := json.Unmarshal(said, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKernelLoopsMeasure(t *testing.T) {
	for _, c := range []Config{
		{Op: OpUDP, Kind: Stream, Bytes: 1 << 20},
		{Op: OpUDP, Kind: Ping, Bytes: 8},
		{Op: OpUDP, Kind: Ping, Bytes: 8, Events: true},
		{Op: OpTCP, Kind: Stream, Bytes: 1 << 20},
		{Op: OpTCP, Kind: Ping, Bytes: 8},
		{Op: OpTCP, Kind: Ping, Bytes: 8, Events: true},
	} {
		r := runPair(t, c)
		if c.Kind == Stream && (r.Throughput <= 0 || r.Rate <= 0) || c.Kind == Ping && (r.P50 <= 0 || r.P99 < r.P50) {
			t.Errorf("%s %s, events %v: %+v", c.Op, c.Kind, c.Events, r)
		}
	}
}

// Go's runtime interrupts threads by signals, and a receive with a timeout then returns
// EINTR. The end must continue to wait.
func TestUDPEndContinuesAfterSignals(t *testing.T) {
	c := Config{Op: OpUDP, Kind: Ping, Bytes: 8, Events: true, Port: FreePort(), Local: netip.MustParseAddr("127.12.1.5"), Peer: netip.MustParseAddr("127.12.1.6")}
	waiting, err := newUDPEnd(&c)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.close()
	c.Server, c.Local, c.Peer = true, c.Peer, c.Local
	sending, err := newUDPEnd(&c)
	if err != nil {
		t.Fatal(err)
	}
	defer sending.close()
	thread, came := make(chan int, 1), make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		n, _ := waiting.(*udpEnd).await(make([]byte, 64))
		came <- n
	}()
	tid := <-thread
	in := fmt.Sprint(unix.SYS_RECVFROM)
	for range 20 {
		for asleep := false; !asleep && len(came) == 0; runtime.Gosched() {
			call, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
			if err != nil {
				t.Skipf("cannot see what a thread waits for: %v", err)
			}
			asleep = strings.HasPrefix(string(call), in+" ")
		}
		if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != nil {
			t.Fatal(err)
		}
	}
	if err := sending.(*udpEnd).send(make([]byte, 8), 8); err != nil {
		t.Fatal(err)
	}
	if n := <-came; n != 8 {
		t.Errorf("%d bytes came, expected 8", n)
	}
}

func TestParseConfigParsesArgs(t *testing.T) {
	c := Config{
		Server: true, Op: OpTCP, Kind: Stream, Bytes: 1 << 20, Segment: 1056, Events: true, Seconds: .25, Port: 4711,
		Local: netip.MustParseAddr("127.12.1.5"), Peer: netip.MustParseAddr("fe80::1%lo"),
	}
	argv, err := c.Args("softrdma")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseConfig(argv[len(argv)-1])
	if err != nil || *got != c {
		t.Errorf("%+v, %v, expected %+v", got, err, c)
	}
	for _, text := range []string{"", "{}", `{"oops":1}`, "[]"} {
		if _, err := ParseConfig(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestRunRefusesInvalidConfig(t *testing.T) {
	ok := Config{Op: OpUDP, Kind: Ping, Bytes: 8, Segment: 1024, Local: netip.MustParseAddr("127.12.1.3"), Peer: netip.MustParseAddr("127.12.1.4")}
	for name, change := range map[string]func(*Config){
		"no bytes":        func(c *Config) { c.Bytes = 0 },
		"too many bytes":  func(c *Config) { c.Bytes = 1 << 30 },
		"short datagrams": func(c *Config) { c.Segment = 1 },
		"no such loop":    func(c *Config) { c.Op = "sctp" },
		"nowhere":         func(c *Config) { c.Peer = netip.Addr{} },
	} {
		c := ok
		change(&c)
		if err := Run(t.Context(), &c, func(any) error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
