package console

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"softrdma/internal/capture"
	"softrdma/internal/capture/ladder"
	"softrdma/internal/control"
	"softrdma/internal/sampler"
)

// A history is what the flight recorder has of a queue pair.
type history struct {
	Lines  []string `json:"lines"`  // changes of state, refusals, failed completions and packets, the oldest first
	Ladder string   `json:"ladder"` // the packets as a drawing
}

// queuePair replies with the history of a queue pair.
func queuePair(w http.ResponseWriter, r *http.Request, s control.Socket) error {
	n, err := strconv.ParseUint(r.PathValue("qpn"), 10, 24)
	if err != nil {
		control.Refuse(w, http.StatusBadRequest, "queue pair: expected a number of 24 bits, found %q", r.PathValue("qpn"))
		return nil
	}
	h := history{Lines: []string{}}
	lines, err := sampler.Record(r.Context(), sampler.Target{Socket: s, Device: r.PathValue("device"), QPN: uint32(n)})
	if err != nil {
		return err
	}
	for _, line := range lines {
		h.Lines = append(h.Lines, strings.Join(strings.Fields(line), " "))
	}
	var packets bytes.Buffer
	if err = s.Ask(r.Context(), http.MethodGet, path(r, "record?format=pcapng"), nil, &packets); err != nil {
		return err
	}
	if h.Ladder, err = drawLadder(&packets, uint32(n)); err != nil {
		return err
	}
	reply(w, h)
	return nil
}

// drawLadder draws the connections of a queue pair in a flight recorder's packets. What the analyzer finds
// is left out: the recorder has a run of packets as one, in which it would miss the others.
func drawLadder(packets io.Reader, qpn uint32) (string, error) {
	in, err := capture.NewReader(packets)
	if err != nil {
		return "", err
	}
	l, a := ladder.New(1), capture.NewAnalyzer()
	for {
		var p capture.Packet
		if err = in.Next(&p); err != nil {
			break
		}
		a.Add(&p)
		l.Add(0, &p, nil)
	}
	if !errors.Is(err, io.EOF) {
		return "", err
	}
	l.Pair(a.Connections())
	var out strings.Builder
	err = l.Draw(&out, ladder.Options{QPN: qpn, All: true, Most: 1})
	return out.String(), err
}
