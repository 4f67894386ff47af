package control

import (
	"encoding/json"
	"net/http"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
)

// An Event is something that has happened to a queue pair.
type Event struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // state, refused, completed (in error) or lost
	QPN  uint32    `json:"qpn,omitempty"`

	Count  uint64 `json:"count,omitempty"`  // refused: how often since the event before
	Reason string `json:"reason,omitempty"` // name
	Text   string `json:"text,omitempty"`   // sentence of the reason

	From string `json:"from,omitempty"` // state
	To   string `json:"to,omitempty"`

	WRID       uint64 `json:"wr_id,omitempty"`       // completed
	Status     string `json:"status,omitempty"`      // completed
	PeerReason string `json:"peer_reason,omitempty"` // completed: what the peer says
	PeerText   string `json:"peer_text,omitempty"`

	Lost uint64 `json:"lost,omitempty"` // lost: how many events the client has missed
}

// Kind of the event that says how many were missed.
const kindLost = "lost"

// eventOf returns a record as an event.
func eventOf(r *recorder.Record, at time.Time) Event {
	e := Event{Time: at, Kind: r.Kind.String(), QPN: r.QPN}
	if d := r.Detail; d.Reason != reason.None {
		e.Reason, e.Text = d.Reason.String(), d.String()
	}
	switch r.Kind {
	case recorder.Refused:
		e.Count = r.Count
	case recorder.State:
		e.From, e.To = qp.State(r.From).String(), qp.State(r.To).String()
	case recorder.Completed:
		e.WRID, e.Status = r.WRID, queue.Status(r.Status).String()
		if r.Said.Reason != reason.None {
			e.PeerReason, e.PeerText = r.Said.Reason.String(), r.Said.String()
		}
	}
	return e
}

// followEvery is how often the recorder is read for a client.
const followEvery = 200 * time.Millisecond

// events writes what happens to a device until the client goes or the device closes. While the client
// does not read, nothing is kept for it but what the recorder keeps anyway.
func events(w http.ResponseWriter, r *http.Request, n named) {
	from := n.Follow()
	c, written := http.NewResponseController(w), make(chan struct{})
	defer close(written)
	go func() { // a client that does not read must not keep the device from closing
		select {
		case <-n.gone:
			_ = c.SetWriteDeadline(time.Now().Add(followEvery))
		case <-written:
		}
	}()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	e, t := json.NewEncoder(w), time.NewTicker(followEvery)
	defer t.Stop()
	for last := false; ; {
		all, lost, now := from.Next()
		wall := time.Now()
		if lost > 0 && e.Encode(Event{Time: wall, Kind: kindLost, Lost: lost}) != nil {
			return
		}
		for i := range all {
			if e.Encode(eventOf(&all[i], wall.Add(all[i].Time-now))) != nil {
				return
			}
		}
		if c.Flush() != nil || last {
			return
		}
		select {
		case <-t.C:
		case <-n.gone:
			last = true // what happened until now
		case <-r.Context().Done():
			return
		}
	}
}
