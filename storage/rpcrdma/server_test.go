package rpcrdma_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rdmacm"
	"softrdma/storage/internal/channel"
	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
	"softrdma/verbs"
)

// echo answers a call with its arguments, an opaque item. A procedure 1 waits until wait is closed, 2
// returns no item, and 3 an error.
type echo struct{ wait chan struct{} }

const replyHeader = 24

func (e *echo) Call(_ context.Context, call, reply []byte) (int, []rpcrdma.Item, error) {
	c, err := wire.ParseCall(call)
	if err != nil {
		return 0, nil, err
	}
	switch c.Procedure {
	case 1:
		<-e.wait
	case 3:
		return 0, nil, errors.New("the service ends the connection")
	}
	data := call[c.Arguments:]
	n := int(binary.BigEndian.Uint32(data))
	if len(reply) < replyHeader+4+wire.Pad(n) {
		return 0, nil, rpcrdma.ErrReplySize
	}
	clear(reply[:replyHeader])
	binary.BigEndian.PutUint32(reply, c.XID)
	reply[7] = 1
	copy(reply[replyHeader:], data[:4+wire.Pad(n)])
	items := []rpcrdma.Item{{Offset: replyHeader + 4, Length: n}}
	if c.Procedure == 2 {
		items = nil
	}
	return replyHeader + 4 + wire.Pad(n), items, nil
}

// call writes a call of a procedure with an opaque argument. It returns where that begins.
func call(xid, procedure uint32, data []byte) (b []byte, at int) {
	for _, w := range []uint32{xid, 0, 2, 7, 1, procedure, 0, 0, 0, 0, uint32(len(data))} {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	at = len(b)
	b = append(b, data...)
	return append(b, make([]byte, wire.Pad(len(data))-len(data))...), at
}

// reply is what the echo answers.
func reply(xid uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, xid)
	b = append(b, 0, 0, 0, 1)
	b = append(b, make([]byte, replyHeader-8)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, data...)
	return append(b, make([]byte, wire.Pad(len(data))-len(data))...)
}

// A client is a requester that says in its headers what a test wants.
type client struct {
	t      *testing.T
	host   *bubble.Host
	c      *channel.Conn
	memory *verbs.MR
}

const memorySize = 1 << 20

// run runs a test in a bubble with a server.
func run(t *testing.T, cfg rpcrdma.Config, service rpcrdma.Service, test func(t *testing.T, s *rpcrdma.Server, dial func() *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := bubble.New(1, simnet.LinkConfig{})
		t.Cleanup(w.End)
		server := open(t, w, "127.0.0.1")
		l, err := rdmacm.Listen("127.0.0.1:20049", rdmacm.ListenConfig{Device: server.Device})
		if err != nil {
			t.Fatal(err)
		}
		s := &rpcrdma.Server{Service: service, Config: cfg}
		var served sync.WaitGroup
		served.Go(func() { _ = s.Serve(t.Context(), l) })
		n := byte(2)
		test(t, s, func() *client {
			host := open(t, w, netip.AddrFrom4([4]byte{127, 0, 0, n}).String())
			n++
			c := dial(t, host.Device, false)
			c.host = host
			return c
		})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
		if c := server.Device.Counts(); c != (verbs.Counts{}) {
			t.Errorf("the server has left %+v", c)
		}
	})
}

func open(t *testing.T, w *bubble.World, address string) *bubble.Host {
	t.Helper()
	h, err := w.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Device.Close() })
	return h
}

func dial(t *testing.T, dev *verbs.Device, invalidate bool) *client {
	t.Helper()
	d := rdmacm.Dialer{Device: dev}
	e, err := d.Resolve(t.Context(), "127.0.0.1:20049")
	if err != nil {
		t.Fatal(err)
	}
	cfg := channel.Config{Receives: 80, ReceiveSize: 4096, Sends: 8, Memory: 1 << 20}
	private := wire.Private{RemoteInvalidation: invalidate, Send: 4096, Receive: 4096}
	c, err := channel.Connect(t.Context(), e, cfg, rdmacm.ConnParam{PrivateData: private.Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.PD().RegisterMemory(make([]byte, memorySize), verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.MWBind)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t: t, c: c, memory: m}
}

func (c *client) close() {
	if err := errors.Join(c.memory.Deregister(), c.c.Close()); err != nil {
		c.t.Error(err)
	}
}

// at returns a segment of the client's memory.
func (c *client) at(off, n int) wire.Segment {
	return wire.Segment{Handle: c.memory.RKey(), Length: uint32(n), Offset: c.memory.Addr() + uint64(off)}
}

func (c *client) send(message []byte) {
	c.t.Helper()
	if err := c.sendLast(message); err != nil {
		c.t.Fatal(err)
	}
}

// sendLast sends a message after which the server ends the connection. The end may come before the message's
// acknowledge, and then sendLast returns an error.
func (c *client) sendLast(message []byte) error {
	c.t.Helper()
	b, err := c.c.Buffer(len(message))
	if err != nil {
		c.t.Fatal(err)
	}
	defer c.c.Put(b)
	return c.c.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, copy(b.Bytes, message))}})
}

// receive returns the header and the body of the next message.
func (c *client) receive() (wire.Header, []byte) {
	c.t.Helper()
	m, err := c.c.Receive()
	if err != nil {
		c.t.Fatal(err)
	}
	h, body, err := wire.Parse(m.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	body = bytes.Clone(body)
	c.c.Release(m)
	return h, body
}

// exchange sends a header with a body, and returns the answer.
func (c *client) exchange(h wire.Header, body []byte) (wire.Header, []byte) {
	c.t.Helper()
	h.Credits = 32
	c.send(append(h.Append(nil), body...))
	got, rest := c.receive()
	if got.XID != h.XID || got.Credits == 0 {
		c.t.Errorf("expected the XID %d and credits, found %+v", h.XID, got)
	}
	return got, rest
}

func text(n int) []byte { return []byte(strings.Repeat("All the bytes of a call. ", n/25+1)[:n]) }

func TestShortCall(t *testing.T) {
	run(t, rpcrdma.Config{}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		c := dial()
		defer c.close()
		b, _ := call(5, 0, text(99))
		h, body := c.exchange(wire.Header{XID: 5}, b)
		if h.Type != wire.Msg || !bytes.Equal(body, reply(5, text(99))) {
			t.Errorf("found %+v, %q", h, body)
		}
		if n := s.Counters(); n.Calls != 1 || n.Clients != 1 || n.BytesIn != 0 || n.BytesOut != 0 {
			t.Errorf("found %+v", n)
		}
	})
}

// The argument is in a read chunk of two segments, the result in a write chunk of two.
func TestReadAndWriteChunks(t *testing.T) {
	for _, n := range []int{3, 5000, 300001} {
		run(t, rpcrdma.Config{}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
			c := dial()
			defer c.close()
			b, at := call(6, 0, text(n))
			copy(c.memory.Bytes(), text(n))
			h, body := c.exchange(wire.Header{
				XID:    6,
				Reads:  []wire.ReadSegment{{Position: uint32(at), Segment: c.at(0, 2)}, {Position: uint32(at), Segment: c.at(2, n-2)}},
				Writes: [][]wire.Segment{{c.at(500000, 1), c.at(600000, 400000)}},
			}, b[:at])
			if want := reply(6, text(n))[:replyHeader+4]; h.Type != wire.Msg || !bytes.Equal(body, want) {
				t.Errorf("%d: found %+v, %q", n, h, body)
			}
			if len(h.Writes) != 1 || len(h.Writes[0]) != 2 || h.Writes[0][0].Length != 1 || h.Writes[0][1].Length != uint32(n-1) {
				t.Errorf("%d: found the write list %+v", n, h.Writes)
			}
			if got := append(c.memory.Bytes()[500000:500001:500001], c.memory.Bytes()[600000:600000+n]...); !bytes.Equal(got[:n], text(n)) {
				t.Errorf("%d: wrong bytes were written", n)
			}
		})
	}
}

// The call is in a chunk at position zero, with another inserted; the reply is in a reply chunk.
func TestLongCallAndReply(t *testing.T) {
	run(t, rpcrdma.Config{}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		c := dial()
		defer c.close()
		const n = 10001
		b, at := call(7, 2, text(n))
		copy(c.memory.Bytes(), b)
		h, body := c.exchange(wire.Header{
			XID: 7, Type: wire.NoMsg, Reads: []wire.ReadSegment{{Segment: c.at(0, 30)}, {Segment: c.at(30, len(b)-30)}},
			Reply: []wire.Segment{c.at(100000, 5000), c.at(200000, 400), c.at(300000, 50000), c.at(400000, 9)},
		}, nil)
		want := reply(7, text(n))
		if h.Type != wire.NoMsg || len(body) != 0 || len(h.Reply) != 4 || h.Reply[2].Length != uint32(len(want)-5400) || h.Reply[3].Length != 0 {
			t.Errorf("found %+v, %q", h, body)
		}
		m := c.memory.Bytes()
		if got := bytes.Join([][]byte{m[100000:105000], m[200000:200400], m[300000 : 300000+len(want)-5400]}, nil); !bytes.Equal(got, want) {
			t.Error("the reply is wrong")
		}
		copy(c.memory.Bytes(), b[:at])
		copy(c.memory.Bytes()[5000:], text(n))
		h, _ = c.exchange(wire.Header{
			XID: 7, Type: wire.NoMsg, Reads: []wire.ReadSegment{{Segment: c.at(0, at)}, {Position: uint32(at), Segment: c.at(5000, n)}},
			Reply: []wire.Segment{c.at(100000, 20000)},
		}, nil)
		if h.Type != wire.NoMsg || !bytes.Equal(m[100000:100000+len(want)], want) {
			t.Errorf("a chunk in a long call: found %+v", h)
		}
	})
}

// A write chunk takes the item, and the reply chunk the rest.
func TestReplyChunkBesideWriteChunk(t *testing.T) {
	run(t, rpcrdma.Config{}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		c := dial()
		defer c.close()
		b, _ := call(8, 0, text(1001))
		h, body := c.exchange(wire.Header{XID: 8, Writes: [][]wire.Segment{{c.at(0, 2000)}, {c.at(9000, 7)}}, Reply: []wire.Segment{c.at(5000, 500)}}, b)
		m, want := c.memory.Bytes(), reply(8, text(1001))[:replyHeader+4]
		if h.Type != wire.NoMsg || len(body) != 0 || !bytes.Equal(m[:1001], text(1001)) || m[1001] != 0 || !bytes.Equal(m[5000:5000+len(want)], want) {
			t.Errorf("found %+v, %q", h, body)
		}
		if len(h.Writes) != 2 || h.Writes[1][0].Length != 0 {
			t.Errorf("a chunk without item: found %+v", h.Writes)
		}
	})
}

// There is memory for one call, which an answer must not need beside it.
func TestWrongCallsAreAnswered(t *testing.T) {
	run(t, rpcrdma.Config{MaxMessage: 4096, Memory: 4 * 4096}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		c := dial()
		defer c.close()
		b, at := call(9, 0, text(2000))
		old := (&wire.Header{XID: 9}).Append(nil)
		old[7] = 2
		c.send(old)
		if h, _ := c.receive(); h.Type != wire.Error || h.Code != wire.CodeVersion || h.Low != 1 || h.High != 1 {
			t.Errorf("version 2: found %+v", h)
		}
		for name, h := range map[string]wire.Header{
			"no call":         {Type: wire.NoMsg},
			"two calls":       {Reads: []wire.ReadSegment{{Segment: c.at(0, 100)}}},
			"position":        {Reads: []wire.ReadSegment{{Position: 4096, Segment: c.at(0, 8)}}},
			"too long":        {Reads: []wire.ReadSegment{{Position: uint32(at), Segment: c.at(0, 4000)}}},
			"far too long":    {Type: wire.NoMsg, Reads: []wire.ReadSegment{{Segment: c.at(0, 1<<30)}}},
			"short write":     {Writes: [][]wire.Segment{{c.at(0, 1999)}}},
			"short reply":     {Reply: []wire.Segment{c.at(0, 100)}},
			"obsolete type":   {Type: wire.MsgP},
			"unknown message": {Type: 77},
		} {
			h.XID = 9
			got, _ := c.exchange(h, b)
			if got.Type != wire.Error || got.Code != wire.CodeChunk {
				t.Errorf("%s: found %+v", name, got)
			}
		}
		c.send([]byte("short"))
		c.send((&wire.Header{Type: wire.Done}).Append(make([]byte, 0, 28))[:16])
		small, _ := call(10, 0, text(10))
		if h, body := c.exchange(wire.Header{XID: 10}, small); h.Type != wire.Msg || !bytes.Equal(body, reply(10, text(10))) {
			t.Errorf("after wrong calls: found %+v, %q", h, body)
		}
		if n := s.Counters(); n.Refused != 10 || n.Ignored != 2 {
			t.Errorf("expected 10 refused and 2 ignored messages, found %+v", n)
		}
	})
}

// A key that the client has not registered ends its connection, and no other.
func TestWrongKeyEndsConnection(t *testing.T) {
	run(t, rpcrdma.Config{}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		good, bad := dial(), dial()
		defer good.close()
		defer bad.close()
		b, _ := call(11, 0, text(8))
		segment := bad.at(0, 64)
		segment.Handle ^= 0x55
		_ = bad.sendLast(append((&wire.Header{XID: 11, Reply: []wire.Segment{segment}}).Append(nil), b...))
		if m, err := bad.c.Receive(); err == nil {
			t.Errorf("expected the end of the connection, found a message of %d bytes", len(m.Data))
		}
		if h, _ := good.exchange(wire.Header{XID: 11}, b); h.Type != wire.Msg {
			t.Errorf("found %+v", h)
		}
	})
}

// A client that leaves while calls are executed leaves nothing behind, which run checks.
func TestClientLeavesDuringCalls(t *testing.T) {
	e := &echo{}
	run(t, rpcrdma.Config{Credits: 8}, e, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		e.wait = make(chan struct{})
		c, other := dial(), dial()
		for i := range uint32(8) {
			b, _ := call(i, 1, text(5))
			c.send(append((&wire.Header{XID: i}).Append(nil), b...))
		}
		synctest.Wait()
		c.close()
		close(e.wait)
		b, _ := call(20, 0, text(5))
		if h, _ := other.exchange(wire.Header{XID: 20}, b); h.Type != wire.Msg {
			t.Errorf("another client: found %+v", h)
		}
		other.close()
	})
}

// A client whose host disappears is given up, also if nothing is sent to it.
func TestVanishedClientIsGivenUp(t *testing.T) {
	run(t, rpcrdma.Config{PeerTimeout: 5 * time.Second}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		gone := make(chan error, 2)
		s.Disconnected = func(_ netip.AddrPort, err error) { gone <- err }
		idle, busy := dial(), dial()
		b, _ := call(1, 0, text(5))
		busy.send(append((&wire.Header{XID: 1}).Append(nil), b...))
		idle.host.Kill()
		busy.host.Kill()
		for range 2 {
			if err := <-gone; err == nil {
				t.Error("expected the reason of the end")
			}
		}
		idle.close()
		busy.close()
	})
}

// The reply invalidates the key of a client that allows it, if it is the only one.
func TestReplyInvalidatesKey(t *testing.T) {
	run(t, rpcrdma.Config{}, &echo{}, func(t *testing.T, s *rpcrdma.Server, first func() *client) {
		plain := first()
		c := dial(t, plain.host.Device, true)
		defer plain.close()
		defer c.close()
		w, err := c.c.PD().AllocMW(verbs.MWType2)
		if err != nil {
			t.Fatal(err)
		}
		bind := verbs.Bind{MW: w, MR: c.memory, Addr: c.memory.Addr(), Length: memorySize, Access: verbs.RemoteRead | verbs.RemoteWrite}
		if err = c.c.Do(verbs.SendWR{Op: verbs.OpBindMW, Bind: &bind}); err != nil {
			t.Fatal(err)
		}
		window := c.at(0, 5000)
		window.Handle = w.RKey()
		for name, x := range map[string]struct {
			writes [][]wire.Segment
			want   uint32
		}{
			"two keys": {[][]wire.Segment{{c.at(9000, 1), window}}, 0},
			"none":     {nil, 0},
		} {
			b, _ := call(1, 0, text(2000))
			c.send(append((&wire.Header{XID: 1, Writes: x.writes}).Append(nil), b...))
			m, err := c.c.Receive()
			if err != nil || m.Invalidated != x.want {
				t.Fatalf("%s: expected the invalidated key %#x, found %#x, %v", name, x.want, m.Invalidated, err)
			}
			c.c.Release(m)
		}
		b, _ := call(1, 0, text(2000))
		c.send(append((&wire.Header{XID: 1, Writes: [][]wire.Segment{{window}}}).Append(nil), b...))
		m, err := c.c.Receive()
		if err != nil || m.Invalidated != window.Handle || !bytes.Equal(c.memory.Bytes()[:2000], text(2000)) {
			t.Errorf("expected the invalidated key %#x, found %#x, %v", window.Handle, m.Invalidated, err)
		}
		if err = w.Dealloc(); err != nil {
			t.Error(err)
		}
	})
}

// Credits bound the calls that are executed; others wait.
func TestCreditsBoundCalls(t *testing.T) {
	e := &echo{}
	run(t, rpcrdma.Config{Credits: 4}, e, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		e.wait = make(chan struct{})
		c := dial()
		defer c.close()
		var sent sync.WaitGroup
		for i := range uint32(12) {
			sent.Go(func() {
				b, _ := call(i, 1, text(5))
				c.send(append((&wire.Header{XID: i}).Append(nil), b...))
			})
		}
		synctest.Wait()
		if n := s.Counters().Calls; n > 4 {
			t.Errorf("expected at most 4 calls at a time, found %d", n)
		}
		close(e.wait)
		seen := map[uint32]bool{}
		for range 12 {
			h, _ := c.receive()
			seen[h.XID] = true
		}
		sent.Wait()
		if len(seen) != 12 {
			t.Errorf("expected 12 replies, found %v", seen)
		}
	})
}

// A host that opens connections and says nothing does not keep others out.
func TestOneHostHasAPartOfTheConnections(t *testing.T) {
	run(t, rpcrdma.Config{Clients: 8}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		first := dial()
		defer first.close()
		second := connect(t, first.host.Device)
		if second == nil {
			t.Fatal("the second connection of a host was refused")
		}
		if connect(t, first.host.Device) != nil {
			t.Error("a host has more than a quarter of the connections")
		}
		other := dial()
		defer other.close()
		b, _ := call(5, 0, text(9))
		other.exchange(wire.Header{XID: 5}, b)
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // of the bubble: the server ends its side
		again := connect(t, first.host.Device)
		if again == nil {
			t.Fatal("a connection that has ended is counted")
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

// connect connects once more from a device. It returns nil if the server refuses.
func connect(t *testing.T, dev *verbs.Device) *channel.Conn {
	t.Helper()
	d := rdmacm.Dialer{Device: dev}
	e, err := d.Resolve(t.Context(), "127.0.0.1:20049")
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.Connect(t.Context(), e, channel.Config{Receives: 8, ReceiveSize: 4096, Sends: 8, Memory: 1 << 20}, rdmacm.ConnParam{})
	if err != nil {
		return nil
	}
	return c
}

func TestErrorOfServiceEndsConnection(t *testing.T) {
	run(t, rpcrdma.Config{}, &echo{}, func(t *testing.T, s *rpcrdma.Server, dial func() *client) {
		c := dial()
		defer c.close()
		b, _ := call(1, 3, nil)
		_ = c.sendLast(append((&wire.Header{XID: 1}).Append(nil), b...))
		if _, err := c.c.Receive(); err == nil {
			t.Error("expected the end of the connection")
		}
	})
}

func TestLimitsAreChecked(t *testing.T) {
	for says, c := range map[string]rpcrdma.Config{
		"credits": {Credits: 2000}, "inline": {Inline: 1000}, "largest message": {Inline: 8192, MaxMessage: 4096},
		"memory": {Memory: 1 << 20}, "clients": {Clients: -1},
	} {
		s := rpcrdma.Server{Config: c}
		if err := s.Serve(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%+v: expected an error about %s, found %v", c, says, err)
		}
	}
}
