package msg_test

import (
	"errors"
	"strings"
	"testing"

	"softrdma/msg"
	"softrdma/verbs"
)

func TestRequestsOfAPeerThatClosesSayThatItClosed(t *testing.T) {
	for name, end := range map[string]func(*msg.Worker, *msg.Endpoint) error{
		"worker":   func(w *msg.Worker, _ *msg.Endpoint) error { return w.Close() },
		"endpoint": func(_ *msg.Worker, e *msg.Endpoint) error { return e.Close(t.Context()) },
	} {
		here, err := verbs.Open("127.0.0.24", verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		there, err := verbs.Open("127.0.0.25", verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		from := make(chan *msg.Endpoint, 1)
		a, _ := msg.NewWorker(here, msg.Config{})
		b, _ := msg.NewWorker(there, msg.Config{})
		b.Handle(1, func(m *msg.Active) { from <- m.From })
		e, err := a.Connect(t.Context(), b.Address())
		if err != nil {
			t.Fatal(err)
		}
		e.SendActive(1, nil, nil, nil)
		back := <-from
		waits := e.Send(7, msg.Buffers{[]byte("nobody receives this")}, &msg.SendOptions{Sync: true})
		if err := end(b, back); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
		if _, err := waits.Wait(t.Context()); !errors.Is(err, msg.ErrPeerClosed) || !errors.Is(err, msg.ErrPeer) || strings.Contains(err.Error(), "gone") {
			t.Errorf("%s: %v, expected that the peer has closed", name, err)
		}
		_, _ = a.Close(), b.Close()
		_, _ = here.Close(), there.Close()
	}
}
