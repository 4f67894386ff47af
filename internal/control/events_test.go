package control

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
)

func TestEventsAreWrittenWhileAClientReads(t *testing.T) {
	s, f := answering(t, "127.0.0.1", "127.0.0.2")
	f[0].happened(100) // more than the recorder keeps
	enough := errors.New("enough")
	var all []Event
	err := s.Events(t.Context(), "127.0.0.1", func(e Event) error {
		all = append(all, e)
		if len(all) == 65 {
			f[0].happened(1)
		}
		if len(all) == 66 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(all) != 66 || all[0].Kind != "lost" || all[0].Lost != 36 {
		t.Fatalf("%v: %d events, %+v", err, len(all), all[0])
	}
	want := Event{Kind: "state", QPN: 17, From: "RTS", To: "ERR", Reason: "ACK_TIMEOUT", Text: reason.Detail{Reason: reason.AckTimeout}.String(), Time: all[65].Time}
	if all[65] != want || time.Since(all[65].Time) > time.Hour {
		t.Errorf("found %+v, expected %+v", all[65], want)
	}
	if err := s.Events(t.Context(), "lo", nil); err == nil || !strings.Contains(err.Error(), `found "lo"`) {
		t.Errorf("%v", err)
	}
}

func TestEventsEndWithTheDeviceAndWithTheClient(t *testing.T) {
	s, f := answering(t, "127.0.0.1")
	other := newFake(t)
	remove := Add("127.0.0.2", other)
	other.happened(1)
	n := 0
	err := s.Events(t.Context(), "127.0.0.2", func(Event) error {
		if n++; n == 1 {
			other.happened(1)
			remove() // the last event is written, then the stream ends
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("%v, %d events", err, n)
	}
	f[0].happened(1)
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Events(ctx, "127.0.0.1", func(Event) error { cancel(); return nil }); err != nil {
		t.Error(err)
	}
}

// A stuck is a client that does not read: writing to it waits for the deadline.
type stuck struct {
	http.ResponseWriter
	deadline chan struct{}
}

func (s stuck) Header() http.Header { return http.Header{} }
func (s stuck) WriteHeader(int)     {}
func (s stuck) Write([]byte) (int, error) {
	<-s.deadline
	return 0, os.ErrDeadlineExceeded
}

func (s stuck) SetWriteDeadline(time.Time) error {
	close(s.deadline)
	return nil
}

func TestClientThatDoesNotReadKeepsNothingOfAClosedDevice(t *testing.T) {
	f := newFake(t)
	f.happened(1)
	synctest.Test(t, func(t *testing.T) {
		n, ended := named{f, "127.0.0.1", make(chan struct{})}, false
		go func() {
			events(stuck{deadline: make(chan struct{})}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), n)
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Error("the stream has ended before the device")
		}
		close(n.gone)
		synctest.Wait()
		if !ended {
			t.Error("the stream has not ended")
		}
	})
}

func TestEventsSayWhatTheRecorderHas(t *testing.T) {
	at, d := time.Unix(1, 0), reason.Detail{Reason: reason.NAKNotReady, Expected: 7, Found: 1}
	for _, x := range []struct {
		r    recorder.Record
		want Event
	}{
		{recorder.Record{Kind: recorder.Refused, QPN: 1, Count: 3, Detail: d}, Event{Kind: "refused", QPN: 1, Count: 3, Reason: "NAK_NOT_READY", Text: d.String()}},
		{
			recorder.Record{Kind: recorder.Completed, QPN: 1, WRID: 9, Status: uint8(queue.RNRRetryExcErr), Detail: d, Said: d},
			Event{Kind: "completed", QPN: 1, WRID: 9, Status: queue.RNRRetryExcErr.String(), Reason: "NAK_NOT_READY", Text: d.String(), PeerReason: "NAK_NOT_READY", PeerText: d.String()},
		},
	} {
		x.want.Time = at
		if got := eventOf(&x.r, at); got != x.want {
			t.Errorf("found %+v, expected %+v", got, x.want)
		}
	}
}
