package bench

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"softrdma/bench"
	"softrdma/bench/loop"
	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// encode returns a configuration as the argument of a hidden command.
func encode(t *testing.T, c any) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func decode(t *testing.T, text string) (r loop.Result) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMemoryLoopsMeasure(t *testing.T) {
	for _, op := range []string{loop.OpMemcpy, loop.OpCacheLine, loop.OpFutex} {
		c := loop.MemoryConfig{Op: op, Bytes: 1 << 20, Seconds: .05}
		r := decode(t, clitest.Run(t, "bench", "memory", encode(t, c)))
		if op == loop.OpMemcpy && r.Throughput <= 0 || op != loop.OpMemcpy && (r.P50 <= 0 || r.P99 < r.P50) {
			t.Errorf("%s: %+v", op, r)
		}
	}
	clitest.Start(t, "bench", "memory", "{}").Fails(cli.ExitUsage, "operation: expected")
}

func TestEndsMeasureRDMANet(t *testing.T) {
	for _, kind := range []loop.Kind{loop.Stream, loop.Ping} {
		port, err := strconv.Atoi(clitest.FreePort(t))
		if err != nil {
			t.Fatal(err)
		}
		c := loop.Config{
			Server: true, Op: loop.OpRDMANet, Kind: kind, Port: uint16(port), Bytes: 5000, Segment: 1024, Events: true, Seconds: .05,
			Local: netip.MustParseAddr(clitest.LoopbackDevice(t)), Peer: netip.MustParseAddr(clitest.LoopbackDevice(t)),
		}
		server := clitest.Start(t, "bench", "end", encode(t, c))
		server.Prints("ready")
		c.Server, c.Local, c.Peer = false, c.Peer, c.Local
		r := decode(t, clitest.Start(t, "bench", "end", encode(t, c)).Succeeds())
		server.Succeeds()
		if kind == loop.Stream && (r.Throughput <= 0 || r.CPU <= 0) || kind == loop.Ping && (r.P50 <= 0 || r.P99 < r.P50) {
			t.Errorf("%s: %+v", kind, r)
		}
	}
}

// The libraries in the command measure calls, over TCP and over package rdmanet.
func TestEndsMeasureCalls(t *testing.T) {
	for _, c := range []bench.CallsConfig{
		{Library: bench.CallsName}, {Library: bench.NetRPCName}, {Library: bench.HTTPName},
		{Library: bench.NetRPCName, RDMANet: true}, {Library: bench.HTTPName, RDMANet: true},
	} {
		c.SameHost, c.Bytes, c.Seconds, c.Local = "off", 64, .05, "127.0.0.1"
		c.Device = clitest.LoopbackDevice(t)
		server := clitest.Start(t, "bench", "calls", encode(t, c))
		server.Prints("ready")
		server.Prints("\n")
		line := server.Stdout.String()
		c.Device = clitest.LoopbackDevice(t)
		if _, err := fmt.Sscanf(line, "ready %s %d", &c.Peer, &c.UDPPort); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r := decode(t, clitest.Start(t, "bench", "calls", encode(t, c)).Succeeds()); r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("%s, rdmanet %t: %+v", c.Library, c.RDMANet, r)
		}
	}
}
