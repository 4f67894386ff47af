package msg_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/msg"
)

// The server's end of each connection comes with an active message.
func connectBoth(t testing.TB, a, b *msg.Worker) (atA, atB *msg.Endpoint) {
	t.Helper()
	from := make(chan *msg.Endpoint, 1)
	b.Handle(idFirst, func(m *msg.Active) { from <- m.From })
	atA = connect(t, a, b)
	wait(t, atA.SendActive(idFirst, nil, nil, nil))
	for len(from) == 0 { // if b's progress is the caller's
		b.Progress()
		time.Sleep(10 * time.Microsecond)
	}
	atB = next(t, from)
	b.Handle(idFirst, nil)
	return atA, atB
}

// Bytes of all lengths arrive in order, whatever reads them: partial and full receives, in pieces or
// not, before and after the send, and taken chunks. Many times the window passes.
func TestStreamKeepsItsOrder(t *testing.T) {
	each(t, msg.Config{Eager: 1000, Stream: 5000}, func(t *testing.T, a, b *msg.Worker) {
		atA, atB := connectBoth(t, a, b)
		data := random(300_000)
		sent := make(chan error, 1)
		go func() {
			for left := data; len(left) > 0; {
				n := min(len(left), rand.IntN(20000))
				s := atA.SendStream(msg.Buffers{left[:n]})
				if n%2 == 0 {
					s = atA.SendStream(cut(left[n:min(n+500, len(left))], 3))
					n = min(n+500, len(left))
				}
				if _, err := s.Wait(within(t)); err != nil {
					sent <- err
					return
				}
				left = left[n:]
			}
			sent <- nil
		}()
		var got []byte
		for round := 0; len(got) < len(data); round++ {
			buf := make([]byte, min(1+rand.IntN(9000), len(data)-len(got)))
			var r *msg.Request
			switch round % 5 {
			case 0:
				r = atB.ReceiveStream(msg.Buffers{buf}, nil)
			case 1:
				r = atB.ReceiveStream(msg.Buffers{buf}, &msg.StreamOptions{Full: true})
			case 2:
				r = atB.ReceiveStream(cut(buf, 3), nil)
			case 3:
				r = atB.ReceiveStream(cut(buf, 3), &msg.StreamOptions{Full: true})
			case 4:
				c, err := atB.TakeStream()
				if err != nil {
					t.Fatal(err)
				}
				if c != nil {
					got = append(got, c.Bytes...)
					c.Release()
					c.Release() // does nothing
				}
				continue
			}
			i := wait(t, r)
			if i.Length == 0 || i.Length < len(buf) && round%5%2 == 1 {
				t.Fatalf("receive %d of %d bytes ends with %d", round%5, len(buf), i.Length)
			}
			got = append(got, buf[:i.Length]...)
		}
		if err := next(t, sent); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(got, data) {
			t.Error("other bytes arrive")
		}
	})
}

// A sender waits when the receiver's window is full, and messages pass.
func TestStreamWaitsForTheReader(t *testing.T) {
	each(t, msg.Config{Stream: 5000}, func(t *testing.T, a, b *msg.Worker) {
		atA, atB := connectBoth(t, a, b)
		data := random(20000)
		s := atA.SendStream(msg.Buffers{data})
		r := b.Receive(nil, 1, msg.All)
		wait(t, atA.Send(1, nil, &msg.SendOptions{Sync: true}))
		wait(t, r)
		if _, ended, _ := s.Poll(); ended {
			t.Error("20000 bytes are sent into a window of 5000")
		}
		buf := make([]byte, len(data))
		wait(t, atB.ReceiveStream(msg.Buffers{buf}, &msg.StreamOptions{Full: true}))
		wait(t, s)
		if !bytes.Equal(buf, data) {
			t.Error("other bytes arrive")
		}
	})
}

// Streams go in both directions of a connection at a time, apart from the messages.
func TestStreamsOfBothDirectionsAreIndependent(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		atA, atB := connectBoth(t, a, b)
		there, back := random(70000), random(70000)
		bufs := [2][]byte{make([]byte, 70000), make([]byte, 70000)}
		all := []*msg.Request{atA.ReceiveStream(msg.Buffers{bufs[0]}, &msg.StreamOptions{Full: true}), atB.ReceiveStream(msg.Buffers{bufs[1]}, &msg.StreamOptions{Full: true}), atB.SendStream(msg.Buffers{back}), atA.SendStream(msg.Buffers{there})}
		for _, r := range all {
			wait(t, r)
		}
		if !bytes.Equal(bufs[0], back) || !bytes.Equal(bufs[1], there) {
			t.Error("other bytes arrive")
		}
	})
}

// Readable names each endpoint with bytes, also with a short list, and no other.
func TestReadableNamesEndpointsWithBytes(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		const n = 5
		senders := map[*msg.Endpoint]byte{}
		list := make([]*msg.Endpoint, 2)
		for i := range byte(n) {
			atA, atB := connectBoth(t, a, b)
			senders[atB] = i
			if i > 0 { // the first endpoint sends nothing
				wait(t, atA.SendStream(msg.Buffers{[]byte{i}}))
			}
		}
		seen := map[*msg.Endpoint]bool{}
		for len(seen) < n-1 {
			k := b.Readable(list)
			for _, e := range list[:k] {
				seen[e] = true
				if i, ok := senders[e]; !ok || i == 0 {
					t.Fatalf("readable: endpoint %d, %v", i, ok)
				}
			}
			if within(t).Err() != nil {
				t.Fatal("endpoints with bytes are not readable")
			}
		}
		for e := range seen {
			c, err := e.TakeStream()
			if err != nil || len(c.Bytes) != 1 || c.Bytes[0] != senders[e] {
				t.Errorf("endpoint %d: %+v, %v", senders[e], c, err)
			}
			c.Release()
		}
		if k := b.Readable(list); k > 0 {
			t.Errorf("%d endpoints are readable after all was taken", k)
		}
	})
}

// After the peer has closed, its last bytes can be read. Then receives end with its failure, and a
// full one says what arrived.
func TestStreamEndsWithThePeer(t *testing.T) {
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		for _, waiting := range []bool{true, false} {
			atA, atB := connectBoth(t, a, b)
			canceled := atB.ReceiveStream(msg.Buffers{make([]byte, 10)}, nil)
			if !canceled.Cancel() || canceled.Cancel() {
				t.Error("cancel does not work once")
			}
			if _, err := canceled.Wait(within(t)); !errors.Is(err, msg.ErrCanceled) {
				t.Error(err)
			}
			data, buf := random(500), make([]byte, 600)
			var r *msg.Request
			if waiting {
				r = atB.ReceiveStream(msg.Buffers{buf}, &msg.StreamOptions{Full: true})
			}
			wait(t, atA.SendStream(msg.Buffers{data}))
			if err := atA.Close(within(t)); err != nil {
				t.Fatal(err)
			}
			for atB.Err() == nil && within(t).Err() == nil {
				b.Progress()
			}
			if !waiting {
				r = atB.ReceiveStream(msg.Buffers{buf}, &msg.StreamOptions{Full: true})
			}
			if i, err := r.Wait(within(t)); !errors.Is(err, msg.ErrPeer) || i.Length != 500 || !bytes.Equal(buf[:500], data) {
				t.Errorf("%d bytes, %v, expected 500 and %v", i.Length, err, msg.ErrPeer)
			}
			if _, err := atB.ReceiveStream(msg.Buffers{buf}, nil).Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
				t.Errorf("%v, expected %v", err, msg.ErrPeer)
			}
			if c, err := atB.TakeStream(); c != nil || !errors.Is(err, msg.ErrPeer) {
				t.Errorf("%v, %v, expected %v", c, err, msg.ErrPeer)
			}
			if _, err := atA.SendStream(msg.Buffers{data}).Wait(within(t)); !errors.Is(err, msg.ErrClosed) {
				t.Errorf("%v, expected %v", err, msg.ErrClosed)
			}
		}
	})
}
