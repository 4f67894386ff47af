package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"softrdma/bench/compare"
	"softrdma/bench/loop"
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
		r := decode(t, start(t, "memory", encode(t, c)).succeeds())
		if op == loop.OpMemcpy && r.Throughput <= 0 || op != loop.OpMemcpy && (r.P50 <= 0 || r.P99 < r.P50) {
			t.Errorf("%s: %+v", op, r)
		}
	}
	start(t, "memory", "{}").fails("operation: expected")
}

func TestEndsMeasureRDMANet(t *testing.T) {
	for _, kind := range []loop.Kind{loop.Stream, loop.Ping} {
		c := loop.Config{
			Server: true, Op: loop.OpRDMANet, Kind: kind, Port: loop.FreePort(), Bytes: 5000, Segment: 1024, Events: true, Seconds: .05,
			Local: netip.MustParseAddr(loopbackDevice()), Peer: netip.MustParseAddr(loopbackDevice()),
		}
		server := start(t, "end", encode(t, c))
		server.line()
		c.Server, c.Local, c.Peer = false, c.Peer, c.Local
		r := decode(t, start(t, "end", encode(t, c)).succeeds())
		server.ends()
		if kind == loop.Stream && (r.Throughput <= 0 || r.CPU <= 0) || kind == loop.Ping && (r.P50 <= 0 || r.P99 < r.P50) {
			t.Errorf("%s: %+v", kind, r)
		}
	}
}

// The libraries in the command measure calls, over TCP and over package rdmanet.
func TestEndsMeasureCalls(t *testing.T) {
	for _, c := range []compare.CallsConfig{
		{Library: compare.CallsName}, {Library: compare.NetRPCName}, {Library: compare.HTTPName}, {Library: compare.GRPCName},
		{Library: compare.NetRPCName, RDMANet: true}, {Library: compare.HTTPName, RDMANet: true}, {Library: compare.GRPCName, RDMANet: true},
	} {
		c.SameHost, c.Bytes, c.Seconds, c.Local = "off", 64, .05, "127.0.0.1"
		c.Device = loopbackDevice()
		server := start(t, "calls", encode(t, c))
		line := server.line()
		c.Device = loopbackDevice()
		if _, err := fmt.Sscanf(line, "ready %s %d", &c.Peer, &c.UDPPort); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r := decode(t, start(t, "calls", encode(t, c)).succeeds()); r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("%s, rdmanet %t: %+v", c.Library, c.RDMANet, r)
		}
	}
}
