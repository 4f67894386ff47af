package msg_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"softrdma/msg"
)

// The IDs of active messages in tests.
const (
	idFirst = iota + 1
	idReply
	idUnknown = 65535
)

// A caught is a copy of an active message.
type caught struct {
	id           uint16
	header, data []byte
	from         *msg.Endpoint
	err          error
}

// catch handles an ID: it sends a copy of each message to a channel, with the data that it reads.
func catch(w *msg.Worker, id uint16) <-chan caught {
	all := make(chan caught, 1000)
	w.Handle(id, func(m *msg.Active) {
		c := caught{id: m.ID, header: bytes.Clone(m.Header), data: bytes.Clone(m.Data), from: m.From}
		if m.Data != nil {
			all <- c
			return
		}
		c.data = make([]byte, m.Length)
		m.Receive(msg.Buffers{c.data}).Then(func(_ msg.Info, err error) {
			c.err = err
			all <- c
		})
	})
	return all
}

func next[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-within(t).Done():
		t.Fatal("nothing arrives")
	}
	return v
}

func TestActiveMessagesOfAllSizesArrive(t *testing.T) {
	each(t, msg.Config{Eager: 1000}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		all := catch(b, idFirst)
		for _, h := range []int{0, 1, 500, msg.MaxHeader} {
			for _, n := range []int{0, 1, 500, 501, 1000, 1001, 70000, 3 << 20} {
				header, data := random(h), random(n)
				s := e.SendActive(idFirst, header, msg.Buffers{data}, nil)
				if got := next(t, all); got.err != nil || got.id != idFirst || !bytes.Equal(got.header, header) || !bytes.Equal(got.data, data) {
					t.Errorf("%d and %d bytes: %v, same header %v, same data %v", h, n, got.err, bytes.Equal(got.header, header), bytes.Equal(got.data, data))
				}
				if got := wait(t, s); got != (msg.Info{Tag: idFirst, Length: n}) {
					t.Errorf("sent %+v", got)
				}
			}
		}
	})
}

// A handler answers by the message's endpoint, which it never connected, and so does the handler of
// the answer.
func TestHandlersAnswerWithoutAnAddress(t *testing.T) {
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		b.Handle(idFirst, func(m *msg.Active) {
			m.From.SendActive(idReply, m.Header, msg.Buffers{bytes.Clone(m.Data)}, nil)
		})
		const rounds = 50
		end := make(chan byte)
		a.Handle(idReply, func(m *msg.Active) {
			if m.From != e {
				t.Error("an answer has another endpoint than the request")
			}
			if m.Header[0] == rounds {
				end <- m.Data[0]
				return
			}
			m.From.SendActive(idFirst, []byte{m.Header[0] + 1}, msg.Buffers{[]byte{m.Data[0] + 2}}, nil)
		})
		e.SendActive(idFirst, []byte{0}, msg.Buffers{[]byte{7}}, nil)
		if got := next(t, end); got != 7+2*rounds {
			t.Errorf("the last answer is %d, expected %d", got, 7+2*rounds)
		}
		// The endpoint of the answer sends tagged messages as well.
		from := make(chan *msg.Endpoint, 1)
		b.Handle(idFirst, func(m *msg.Active) { from <- m.From })
		e.SendActive(idFirst, nil, nil, nil)
		r := a.Receive(msg.Buffers{make([]byte, 5000)}, 3, msg.All)
		wait(t, next(t, from).Send(3, msg.Buffers{random(5000)}, nil))
		wait(t, r)
	})
}

// Handlers see the messages of an endpoint in order, whatever their length, and one at a time.
func TestHandlersSeeMessagesInOrder(t *testing.T) {
	each(t, msg.Config{Eager: 100, Active: 8}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		const n = 400
		arrived := make(chan int, n)
		count := 0 // no lock: one handler at a time
		for id := range uint16(2) {
			b.Handle(id, func(m *msg.Active) {
				if m.Header[0] != byte(count) {
					t.Errorf("message %d arrives as %d", m.Header[0], count)
				}
				count++
				arrived <- m.Length
			})
		}
		var sends []*msg.Request
		for i := range n {
			sends = append(sends, e.SendActive(uint16(i%2), []byte{byte(i)}, msg.Buffers{make([]byte, i)}, nil))
		}
		for i := range n {
			if got := next(t, arrived); got != i {
				t.Fatalf("message of %d bytes, expected %d", got, i)
			}
		}
		for _, s := range sends {
			wait(t, s) // the handlers dropped the data of the longer ones
		}
	})
}

// Kept messages stay as they are. When the peer's share is kept, its sends wait for a Release.
func TestKeptMessagesStayAndHoldTheSenderBack(t *testing.T) {
	each(t, msg.Config{Eager: 100, Active: 4}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		kept := make(chan *msg.Active, 100)
		b.Handle(idFirst, func(m *msg.Active) {
			m.Keep()
			m.Keep() // counts once
			kept <- m
		})
		text := func(i int) []byte { return fmt.Appendf(nil, "message %d", i) }
		var sends []*msg.Request
		for i := range 12 {
			sends = append(sends, e.SendActive(idFirst, text(i), msg.Buffers{text(i)}, nil))
		}
		for i := range 4 {
			wait(t, sends[i])
		}
		wait(t, e.Send(1, nil, nil)) // tagged messages pass
		wait(t, b.Receive(nil, 1, msg.All))
		if _, ended, _ := sends[4].Poll(); ended || len(kept) > 4 {
			t.Errorf("%d messages arrived while 4 are kept", len(kept))
		}
		for i := range 12 {
			m := next(t, kept)
			if !bytes.Equal(m.Header, text(i)) || !bytes.Equal(m.Data, text(i)) {
				t.Errorf("message %d: %q %q", i, m.Header, m.Data)
			}
			m.Release()
		}
		for _, s := range sends {
			wait(t, s)
		}
	})
}

func TestAnnouncedDataIsReadLaterOnceOrDropped(t *testing.T) {
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		kept := make(chan *msg.Active, 1)
		b.Handle(idFirst, func(m *msg.Active) {
			m.Keep()
			kept <- m
		})
		for _, n := range []int{50, 5000} {
			data, buf := random(n), make([]byte, n)
			s := e.SendActive(idFirst, []byte("h"), msg.Buffers{data}, nil)
			m := next(t, kept)
			if (m.Data == nil) != (n > 100) {
				t.Errorf("%d bytes: data has %d", n, len(m.Data))
			}
			wait(t, m.Receive(msg.Buffers{buf}))
			if !bytes.Equal(buf, data) {
				t.Errorf("%d bytes: other bytes arrive", n)
			}
			wait(t, s)
			if _, err := m.Receive(msg.Buffers{buf}).Wait(within(t)); !errors.Is(err, msg.ErrReceived) {
				t.Errorf("second receive: %v, expected %v", err, msg.ErrReceived)
			}
			m.Release()

			s = e.SendActive(idFirst, nil, msg.Buffers{data}, nil)
			m = next(t, kept)
			if i, err := m.Receive(msg.Buffers{buf[:10]}).Wait(within(t)); !errors.Is(err, msg.ErrTruncated) || i.Length != n {
				t.Errorf("short buffer: %+v, %v, expected %v", i, err, msg.ErrTruncated)
			}
			m.Release()
			wait(t, s)

			s = e.SendActive(idFirst, nil, msg.Buffers{data}, nil)
			next(t, kept).Release()
			wait(t, s)
		}
	})
}

func TestAnnouncedShortDataStaysWithTheSender(t *testing.T) {
	each(t, msg.Config{Eager: 1000}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		messages := make(chan *msg.Active, 1)
		b.Handle(idFirst, func(m *msg.Active) {
			m.Keep()
			messages <- m
		})
		for _, n := range []int{1, 1000, 70000} {
			data := random(n)
			sent := e.SendActive(idFirst, []byte("h"), msg.Buffers{data}, &msg.SendOptions{Announce: true})
			m := next(t, messages)
			if _, ended, err := sent.Poll(); m.Data != nil || m.Length != n || string(m.Header) != "h" || ended {
				t.Fatalf("%d of %d bytes came with header %q, ended %v, %v: expected the header alone", len(m.Data), m.Length, m.Header, ended, err)
			}
			buf := make([]byte, n)
			wait(t, m.Receive(msg.Buffers{buf}))
			m.Release()
			wait(t, sent)
			if !bytes.Equal(buf, data) {
				t.Fatalf("%d other bytes arrived", n)
			}
		}
		sent := e.SendActive(idFirst, []byte("h"), nil, &msg.SendOptions{Announce: true}) // there is nothing to receive
		m := next(t, messages)
		m.Release()
		if wait(t, sent); m.Length != 0 {
			t.Fatal(m.Length)
		}
	})
}

// Data that a handler rejects ends the sender's request with the reason, in the handler or later. Data that came
// with the message, or was received, cannot be rejected.
func TestRejectedDataEndsTheSendWithTheReason(t *testing.T) {
	for _, how := range []msg.Rendezvous{msg.RendezvousGet, msg.RendezvousPut} {
		each(t, msg.Config{Eager: 100, Active: 2, Rendezvous: how}, func(t *testing.T, a, b *msg.Worker) {
			e := connect(t, a, b)
			kept := make(chan *msg.Active, 1)
			b.Handle(idFirst, func(m *msg.Active) {
				m.Reject(7)
				m.Reject(uint32(m.Header[0])) // the last reason counts
			})
			b.Handle(idReply, func(m *msg.Active) {
				m.Keep()
				kept <- m
			})
			for reason := range uint32(6) { // 0 is no reason, so the data is dropped
				var want error
				if reason > 0 {
					want = msg.Rejection(reason)
				}
				header := []byte{byte(reason)}
				if _, err := e.SendActive(idFirst, header, msg.Buffers{random(5000)}, nil).Wait(within(t)); !errors.Is(err, want) {
					t.Errorf("%v, expected %v", err, want)
				}
				wait(t, e.SendActive(idFirst, header, msg.Buffers{random(50)}, nil))
				s := e.SendActive(idReply, nil, msg.Buffers{random(50)}, &msg.SendOptions{Announce: true})
				m := next(t, kept)
				m.Reject(reason)
				m.Release()
				if _, err := s.Wait(within(t)); !errors.Is(err, want) {
					t.Errorf("rejected later: %v, expected %v", err, want)
				}
			}
			data, buf := random(5000), make([]byte, 5000)
			s := e.SendActive(idReply, nil, msg.Buffers{data}, nil)
			m := next(t, kept)
			r := m.Receive(msg.Buffers{buf})
			m.Reject(1)
			m.Release()
			wait(t, r)
			wait(t, s)
			if !bytes.Equal(buf, data) || e.Err() != nil {
				t.Errorf("same bytes %v, endpoint %v", bytes.Equal(buf, data), e.Err())
			}
		})
	}
}

func TestActiveMessageWithoutHandlerIsRefusedAndCounted(t *testing.T) {
	unhandled := make(chan uint16, 10)
	c := msg.Config{Eager: 100, Unhandled: func(_ *msg.Endpoint, id uint16) { unhandled <- id }}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		b.Handle(idReply, func(*msg.Active) { t.Error("a removed handler is called") })
		b.Handle(idReply, nil)
		wait(t, e.SendActive(idUnknown, nil, msg.Buffers{random(10)}, nil))
		if _, err := e.SendActive(idUnknown, nil, msg.Buffers{random(5000)}, nil).Wait(within(t)); !errors.Is(err, msg.ErrHandler) {
			t.Errorf("%v, expected %v", err, msg.ErrHandler)
		}
		wait(t, e.SendActive(idReply, nil, nil, nil))
		for _, want := range []uint16{idUnknown, idUnknown, idReply} {
			if got := next(t, unhandled); got != want {
				t.Errorf("unhandled ID %d, expected %d", got, want)
			}
		}
		if n := b.Unhandled(); n != 3 {
			t.Errorf("%d unhandled messages, expected 3", n)
		}
		all := catch(b, idFirst) // the connection continues
		e.SendActive(idFirst, nil, msg.Buffers{[]byte("x")}, nil)
		next(t, all)
	})
}

// Messages that were kept outlive their connection, except data in the memory of the peer.
func TestKeptMessagesOutliveThePeer(t *testing.T) {
	failed := make(chan error, 10)
	c := msg.Config{Eager: 100, Failed: func(_ *msg.Endpoint, err error) { failed <- err }}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		kept := make(chan *msg.Active, 2)
		b.Handle(idFirst, func(m *msg.Active) {
			m.Keep()
			kept <- m
		})
		wait(t, e.SendActive(idFirst, nil, msg.Buffers{[]byte("short")}, nil))
		long := e.SendActive(idFirst, nil, msg.Buffers{random(5000)}, nil)
		short, announced := next(t, kept), next(t, kept)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := long.Wait(within(t)); !errors.Is(err, msg.ErrPeer) || !errors.Is(err, msg.ErrClosed) {
			t.Errorf("announced send: %v, expected %v", err, msg.ErrClosed)
		}
		if err := next(t, failed); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("%v, expected %v", err, msg.ErrPeer)
		}
		if string(short.Data) != "short" {
			t.Errorf("data %q", short.Data)
		}
		if _, err := announced.Receive(msg.Buffers{make([]byte, 5000)}).Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("receive of announced data: %v, expected %v", err, msg.ErrPeer)
		}
		announced.Release()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if string(short.Data) != "short" {
			t.Errorf("data %q after Close", short.Data)
		}
		short.Release()
		if len(failed) > 0 {
			t.Errorf("a second failure: %v", <-failed)
		}
	})
}

// A short active message needs no memory once its request is released.
func TestShortActiveMessagesDoNotAllocate(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
		needOwnProgress(t)
		e := connect(t, a, b)
		header, data := make([]byte, 8), make([]byte, 8)
		handled, answered := 0, 0
		b.Handle(idFirst, func(m *msg.Active) {
			handled++
			m.From.SendActive(idReply, m.Header, msg.Buffers{data}, nil).Release()
		})
		a.Handle(idReply, func(*msg.Active) { answered++ })
		one := func() {
			n := answered
			e.SendActive(idFirst, header, msg.Buffers{data}, nil).Release()
			for answered == n {
				a.Progress()
				b.Progress()
			}
		}
		for range 1000 {
			one()
		}
		if n := testing.AllocsPerRun(1000, one); n >= 1 && !raceEnabled {
			t.Errorf("%v allocations per message, expected 0", n)
		}
		if handled != answered || handled < 2000 {
			t.Errorf("%d messages, %d answers", handled, answered)
		}
	})
}

// Many goroutines send active messages of all lengths in both directions, and others receive, release
// and answer them while handlers run and a stream flows. Each message arrives once, with its bytes.
func TestManyActiveMessagesAtATime(t *testing.T) {
	each(t, msg.Config{Eager: 200, Active: 8, Stream: 1000}, func(t *testing.T, a, b *msg.Worker) {
		const senders, messages = 4, 60
		atA, atB := connectBoth(t, a, b)
		var done, receivers sync.WaitGroup
		defer receivers.Wait() // they end when what they receive from is closed
		type side struct {
			w       *msg.Worker
			e       *msg.Endpoint
			answers chan byte
			kept    chan *msg.Active
		}
		var sides []side
		for w, e := range map[*msg.Worker]*msg.Endpoint{a: atA, b: atB} {
			end := side{w, e, make(chan byte, senders*messages), make(chan *msg.Active, senders*messages)}
			sides = append(sides, end)
			end.w.Handle(idFirst, func(m *msg.Active) {
				if m.Data != nil && m.Header[0]%2 == 0 {
					m.From.SendActive(idReply, []byte{m.Header[0]}, msg.Buffers{bytes.Clone(m.Data[:1])}, nil).Release()
					return
				}
				m.Keep()
				end.kept <- m
			})
			end.w.Handle(idReply, func(m *msg.Active) {
				if m.Data[0] != m.Header[0] {
					t.Errorf("answer %d to message %d", m.Data[0], m.Header[0])
				}
				end.answers <- m.Header[0]
			})
		}
		for _, end := range sides { // both handle messages before one sends
			for range 2 { // receivers of what was kept
				receivers.Go(func() {
					for m := range end.kept {
						buf := make([]byte, m.Length)
						if _, err := m.Receive(msg.Buffers{buf}).Wait(within(t)); err != nil {
							t.Error(err)
						}
						header, from := bytes.Clone(m.Header), m.From
						m.Release()
						// It does not wait for the send: the peer's places may be full of messages whose
						// receivers wait for this one.
						from.SendActive(idReply, header, msg.Buffers{buf[len(buf)-1:]}, nil)
					}
				})
			}
			for s := range senders {
				done.Go(func() {
					for i := range messages {
						n := byte(s*messages + i)
						data := bytes.Repeat([]byte{n}, 1+i*i)
						if _, err := end.e.SendActive(idFirst, []byte{n}, msg.Buffers{data}, nil).Wait(within(t)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			done.Go(func() {
				got := map[byte]bool{}
				for range senders * messages {
					select {
					case n := <-end.answers:
						if got[n] {
							t.Errorf("message %d is answered twice", n)
						}
						got[n] = true
					case <-within(t).Done():
						t.Errorf("%d of %d messages are answered", len(got), senders*messages)
						return
					}
				}
			})
			data, buf := random(50000), make([]byte, 50000)
			done.Go(func() {
				if _, err := end.e.SendStream(msg.Buffers{data}).Wait(within(t)); err != nil {
					t.Error(err)
				}
			})
			other := atB
			if end.e == atB {
				other = atA
			}
			done.Go(func() {
				if _, err := other.ReceiveStream(msg.Buffers{buf}, &msg.StreamOptions{Full: true}).Wait(within(t)); err != nil || !bytes.Equal(buf, data) {
					t.Errorf("stream: %v, same bytes %v", err, bytes.Equal(buf, data))
				}
			})
			defer close(end.kept)
		}
		done.Wait()
	})
}
