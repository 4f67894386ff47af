package msg_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"softrdma/msg"
	"softrdma/verbs"
)

// cut cuts bytes into n pieces, some of them perhaps empty.
func cut(b []byte, n int) [][]byte {
	list := make([][]byte, n)
	for i := range list[:n-1] {
		k := rand.IntN(len(b)/(n-i)*2 + 1)
		list[i], b = b[:k], b[k:]
	}
	list[n-1] = b
	return list
}

// Messages in pieces arrive in buffers of other pieces, eager and announced, of any number. The
// lists may be changed at once.
func TestMessagesInPiecesArrive(t *testing.T) {
	each(t, msg.Config{Eager: 1000}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		buffers, received := make(chan [][]byte, 1), make(chan error, 1)
		b.Handle(idFirst, func(m *msg.Active) {
			list := <-buffers
			r := m.Receive(list)
			clear(list)
			r.Then(func(_ msg.Info, err error) { received <- err })
		})
		for _, n := range []int{0, 7, 1000, 1001, 70000} {
			for _, pieces := range [][2]int{{1, 1}, {1, 5}, {3, 1}, {16, 16}, {17, 3}, {100, 100}} {
				data, buf := random(n), make([]byte, n+rand.IntN(2))
				from, to := cut(data, pieces[0]), cut(buf, pieces[1])
				check := func(how string) {
					t.Helper()
					if !bytes.Equal(buf[:n], data) {
						t.Errorf("%s: %d bytes in %d and %d pieces: other bytes arrive", how, n, pieces[0], pieces[1])
					}
					clear(buf)
				}
				list := slices.Clone(to)
				r := b.Receive(list, 1, msg.All)
				clear(list)
				list = slices.Clone(from)
				s := e.Send(1, list, &msg.SendOptions{Sync: true})
				clear(list)
				wait(t, r)
				wait(t, s)
				check("tagged")

				s = e.Send(1, from, nil)
				var m *msg.Message
				for m == nil {
					m = b.Claim(1, msg.All)
				}
				wait(t, b.ReceiveMessage(to, m))
				wait(t, s)
				check("claimed")

				buffers <- slices.Clone(to)
				wait(t, e.SendActive(idFirst, nil, from, nil))
				if err := next(t, received); err != nil {
					t.Error(err)
				}
				check("active")
			}
		}
	})
}

func TestTooLongHeadersAndMessagesAreNamed(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		piece := make([]byte, 1<<20)
		long := make([][]byte, verbs.MaxMessage/len(piece), verbs.MaxMessage/len(piece)+1)
		for i := range long {
			long[i] = piece
		}
		long = append(long, piece[:1])
		for name, r := range map[string]*msg.Request{
			"header":           e.SendActive(idFirst, make([]byte, msg.MaxHeader+1), nil, nil),
			"active":           e.SendActive(idFirst, nil, long, nil),
			"tagged":           e.Send(1, long, nil),
			"synchronous":      e.Send(1, long, &msg.SendOptions{Sync: true}),
			"bytes of streams": e.SendStream(long),
		} {
			if _, err := r.Wait(within(t)); !errors.Is(err, msg.ErrTooLong) {
				t.Errorf("%s: %v, expected %v", name, err, msg.ErrTooLong)
			}
		}
		if e.Err() != nil {
			t.Errorf("the endpoint failed: %v", e.Err())
		}
	})
}
