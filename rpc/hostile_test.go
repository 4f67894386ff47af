package rpc_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
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
	for name, c := range map[string]struct {
		frame  []byte
		reason string // in the server's report, empty if the device refuses the read
	}{
		"short":              {[]byte{1, 2, 3}, "a frame of 3 bytes"},
		"kind":               {frame(session.Header{Kind: 99}), "kind 99"},
		"server's kind":      {frame(session.Header{Kind: session.Answer}), "from a client"},
		"length":             {frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Length: 5}, 1), "a body of 1 bytes"},
		"slot":               {frame(session.Header{Kind: session.Request, Slot: 64, Sequence: 1}), "in slot 64 of 64"},
		"sequence":           {frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 7}), "request 7 in slot 3"},
		"consumed":           {frame(session.Header{Kind: session.Credit, Consumed: 1000}), "has consumed frame 1000"},
		"bytes":              {frame(session.Header{Kind: session.Request, Flags: session.Far, Slot: 3, Sequence: 1, Number: 1, Length: 60_000}), "60000 bytes in flight"},
		"far and near":       {frame(session.Header{Kind: session.Request, Flags: session.Far, Slot: 3, Sequence: 1, Length: 1}, 1), "announces a body of 1 bytes"},
		"list":               {frame(session.Header{Kind: session.Taken, Length: 3}, 1, 2, 3), "a list of 3 bytes"},
		"headers cut off":    {frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Headers: 5}, 1, 0, 9, 'a', 'x'), "the last header is cut off"},
		"headers too long":   {frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Headers: 6}, 1, 0, 1, 'a', 'x'), "headers of 6 bytes"},
		"header's name":      {frame(session.Header{Kind: session.Request, Slot: 3, Sequence: 1, Headers: 5}, 1, 0, 1, 'A', 'x'), "a header named \"A\""},
		"headers of credit":  {frame(session.Header{Kind: session.Credit, Headers: 5}, 1, 0, 1, 'a', 'x'), "\"credit\" of 53 bytes has headers of 5 bytes"},
		"memory of nobody's": {frame(session.Header{Kind: session.Request, Flags: session.Far, Slot: 3, Sequence: 1, Number: 1, Length: 6000, Address: 8, Key: 9}), ""},
	} {
		client := w.dial(rpc.ClientConfig{})
		rpc.SendRaw(client, c.frame)
		rpc.Disconnected(client)
		if c.reason != "" {
			err := <-reports
			for !errors.Is(err, rpc.ErrProtocol) { // clients that close may be late to connect again
				err = <-reports
			}
			if !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s: %v, expected %q", name, err, c.reason)
			}
		}
		if _, err := good.Bytes(within(t), []byte("x"), nil); err != nil {
			t.Fatalf("another client after %q: %v", name, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Each of these frames of a server breaks the protocol. The call in flight ends with an error that names the
// reason, and the next call is made in a new session. Frames about other calls change nothing.
func TestHostileServersAreNamedToTheClient(t *testing.T) {
	const longest = 5000
	entered := make(chan chan struct{})
	block := rpc.Func("block", nil, func(ctx context.Context, _ *rpc.Call) error {
		release := make(chan struct{})
		entered <- release
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	w := serve(t, "", rpc.ServerConfig{}, block, echo(rpc.RunAuto))
	frame := func(h session.Header, body ...byte) []byte {
		b := make([]byte, session.HeaderLen)
		if h.Consumed == 0 {
			h.Consumed = 2 // the client has asked for the method's number, and called it
		}
		h.Put(b)
		return append(b, body...)
	}
	long := func(flags session.Flag, sequence uint32) []byte {
		return frame(session.Header{Kind: session.Answer, Flags: flags, Sequence: sequence, Length: longest + 1, Address: 8, Key: 9})
	}
	for name, c := range map[string]struct {
		frames [][]byte
		reason string // in the error, empty if the call continues
	}{
		"short":                  {[][]byte{{1, 2, 3}}, "3 bytes"},
		"kind":                   {[][]byte{frame(session.Header{Kind: 99})}, "kind 99"},
		"client's kind":          {[][]byte{frame(session.Header{Kind: session.Request, Sequence: 1})}, "from a server"},
		"length":                 {[][]byte{frame(session.Header{Kind: session.Answer, Sequence: 1, Length: 5}, 1)}, "a body of 1 bytes"},
		"consumed":               {[][]byte{frame(session.Header{Kind: session.Credit, Consumed: 1000})}, "has consumed frame 1000"},
		"list":                   {[][]byte{frame(session.Header{Kind: session.Taken, Length: 3}, 1, 2, 3)}, "a list of 3 bytes"},
		"longer than the limit":  {[][]byte{long(session.Far, 1), long(session.Far, 2), long(session.Far, 3)}, "this client accepts 5000"}, // one of them is the call's
		"address to leave to":    {[][]byte{frame(session.Header{Kind: session.Leave, Length: 101}, make([]byte, 101)...)}, "an address of 101 bytes"},
		"answer of another slot": {[][]byte{frame(session.Header{Kind: session.Answer, Slot: 40_000, Sequence: 1})}, ""},
		"answer of another call": {[][]byte{frame(session.Header{Kind: session.Answer, Sequence: 1000})}, ""},
	} {
		client := w.dial(rpc.ClientConfig{Calls: 1, MaxBody: longest})
		got := make(chan error, 1)
		go func() {
			_, err := client.Method("test/block", nil).Bytes(within(t), nil, nil)
			got <- err
		}()
		release := <-entered
		for _, f := range c.frames {
			rpc.SendRawToClients(w.srv, f)
		}
		if c.reason == "" {
			close(release)
		}
		err := <-got
		named := errors.Is(err, rpc.ErrProtocol) && errors.Is(err, rpc.ErrOutcomeUnknown) && strings.Contains(err.Error(), c.reason)
		if c.reason == "" && err != nil || c.reason != "" && !named {
			t.Errorf("%s: %v, expected %q", name, err, c.reason)
		}
		if b, err := client.Method("test/echo", nil).Bytes(within(t), []byte("x"), nil); err != nil || string(b) != "x" {
			t.Errorf("the next call after %q: %q, %v", name, b, err)
		}
		if err := client.Close(); err != nil {
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
