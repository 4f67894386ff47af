package bench

import (
	"encoding/json"
	"net/netip"
	"testing"
)

// runPair runs both ends of a loop in this process and returns the client's
// result.
func runPair(t *testing.T, c EndConfig) Result {
	t.Helper()
	c.Port, c.Segment, c.Seconds = freePort(), 1024, .05
	c.Local, c.Peer = netip.MustParseAddr("127.12.1.1"), netip.MustParseAddr("127.12.1.2")
	s := c
	s.Server, s.Local, s.Peer = true, c.Peer, c.Local
	ready, ended := make(chan any, 1), make(chan error, 1)
	go func() { ended <- RunEnd(t.Context(), &s, func(v any) error { ready <- v; return nil }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("server: %v", err)
	}
	var said []byte
	err := RunEnd(t.Context(), &c, func(v any) (err error) { said, err = json.Marshal(v); return err })
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
	for _, c := range []EndConfig{
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

func TestRunEndRefusesBadOrders(t *testing.T) {
	ok := EndConfig{Op: OpUDP, Kind: Ping, Bytes: 8, Segment: 1024, Local: netip.MustParseAddr("127.12.1.3"), Peer: netip.MustParseAddr("127.12.1.4")}
	for name, change := range map[string]func(*EndConfig){
		"no bytes":        func(c *EndConfig) { c.Bytes = 0 },
		"too many bytes":  func(c *EndConfig) { c.Bytes = 1 << 30 },
		"short datagrams": func(c *EndConfig) { c.Segment = 1 },
		"no such loop":    func(c *EndConfig) { c.Op = "sctp" },
	} {
		c := ok
		change(&c)
		if err := RunEnd(t.Context(), &c, func(any) error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
