package rpc_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"softrdma/internal/session"
	"softrdma/rpc"
)

// Each of these frames breaks the protocol. The server names the reason, ends the connection, and
// serves others.
func TestHostileFramesAreNamedAndEndTheConnection(t *testing.T) {
	reports := make(chan error, 100)
	w := serve(t, "", rpc.ServerConfig{Bytes: 50_000, Refused: func(_ netip.AddrPort, err error) { reports <- err }}, echo(rpc.RunAuto))
	good := w.dial(rpc.ClientConfig{}).Method("test/echo", nil)
	frame := func(h session.Header, body ...byte) []byte {
		b := make([]byte, session.HeaderLen)
		h.Put(b)
		return append(b, body...)
	}
	for name, b := range map[string][]byte{
		"short":              {1, 2, 3},
		"kind":               frame(session.Header{Kind: 99}),
		"server's kind":      frame(session.Header{Kind: session.Answer}),
		"length":             frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Length: 5}, 1),
		"slot":               frame(session.Header{Kind: session.Request, Slot: 64, Sequence: 1}),
		"sequence":           frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 7}),
		"consumed":           frame(session.Header{Kind: session.Credit, Consumed: 1000}),
		"bytes":              frame(session.Header{Kind: session.Request, Flags: session.Far, Slot: 3, Sequence: 1, Number: 1, Length: 60_000}),
		"far and near":       frame(session.Header{Kind: session.Request, Flags: session.Far, Slot: 3, Sequence: 1, Length: 1}, 1),
		"list":               frame(session.Header{Kind: session.Taken, Length: 3}, 1, 2, 3),
		"headers cut off":    frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Headers: 5}, 1, 0, 9, 'a', 'x'),
		"headers too long":   frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Headers: 6}, 1, 0, 1, 'a', 'x'),
		"header's name":      frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Headers: 5}, 1, 0, 1, 'A', 'x'),
		"headers of credit":  frame(session.Header{Kind: session.Credit, Headers: 5}, 1, 0, 1, 'a', 'x'),
		"memory of nobody's": frame(session.Header{Kind: session.Request, Flags: session.Far, Slot: 3, Sequence: 1, Number: 1, Length: 6000, Address: 8, Key: 9}),
	} {
		c := w.dial(rpc.ClientConfig{})
		rpc.SendRaw(c, b)
		rpc.Disconnected(c)
		if name != "memory of nobody's" { // the device refuses that
			for !errors.Is(<-reports, rpc.ErrProtocol) { // clients that close may be late to connect again
			}
		}
		if _, err := good.Bytes(within(t), []byte("x"), nil); err != nil {
			t.Fatalf("another client after %q: %v", name, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Random frames, most of them almost right, do not disturb other clients.
func TestRandomFramesDoNotDisturbOthers(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{}, echo(rpc.RunAuto))
	good := w.dial(rpc.ClientConfig{}).Method("test/echo", nil)
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		c := w.dial(rpc.ClientConfig{})
		for range 50 {
			h := session.Header{Kind: session.Kind(r.IntN(10)), Flags: session.Flag(r.IntN(8)), Slot: uint16(r.IntN(4)), Sequence: uint32(r.IntN(4)),
				Number: uint32(r.IntN(3)), Length: uint64(r.IntN(3)), Key: r.Uint32(), Timeout: r.Uint64(), Headers: uint32(r.IntN(2) * r.IntN(4))}
			b := make([]byte, session.HeaderLen+r.IntN(3)*r.IntN(4))
			h.Put(b)
			rpc.SendRaw(c, b)
		}
		if _, err := good.Bytes(within(t), []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add([]byte("\x01\x03gobtest/sum"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := rpc.CheckQuery(b); err != nil {
			t.Error(err)
		}
	})
}
