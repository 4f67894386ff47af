package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/capture/ladder"
	"softrdma/internal/control"
	"softrdma/internal/sampler"
)

// maxCaptures bounds the captures that a page sends, in bytes. They are not kept.
var maxCaptures int64 = 256 << 20

// captureTime bounds how long captures take to arrive, as through ssh -L.
const captureTime = 15 * time.Minute

// opened is what captures have.
type opened struct {
	Captures []captureSummary `json:"captures"`
	Ladder   *ladder.Figure   `json:"ladder"`
}

// A captureSummary summarises a capture.
type captureSummary struct {
	Name   string `json:"name"`
	Frames int    `json:"frames"`
	capture.Totals
	Error string `json:"error,omitempty"` // the file is damaged behind the packets
}

// readCapture reads a capture into a ladder, except packets that keep, unless it is nil, does not want. A
// capture that is cut has a summary; another file is an error.
func readCapture(ctx context.Context, l *ladder.Ladder, view int, name string, in io.Reader, keep func(*capture.Packet) bool) (captureSummary, error) {
	r, err := capture.NewReader(in)
	if err != nil {
		return captureSummary{}, fmt.Errorf("%s: %w", name, err)
	}
	s, err := capture.Read(ctx, r, func(p *capture.Packet, findings []capture.Finding) error {
		if keep == nil || keep(p) {
			l.Add(view, p, findings)
		}
		return nil
	})
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) || ctx.Err() != nil {
		return captureSummary{}, err
	}
	l.Pair(s.Connections)
	c := captureSummary{Name: name, Frames: s.Frames, Totals: s.Totals()}
	if err != nil {
		c.Error = err.Error()
	}
	return c, nil
}

// openCaptures replies with the ladder of one capture, or of two of the same connections, which are the files of a form.
func openCaptures(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(captureTime)) // that of other requests stays where it cannot be set
	r.Body = http.MaxBytesReader(w, r.Body, maxCaptures)
	form, err := r.MultipartReader()
	if err != nil {
		control.Refuse(w, http.StatusBadRequest, "captures: expected a form with one or two files: %v", err)
		return
	}
	// Whether there are two is known at the end.
	l, all := ladder.New(2), []captureSummary{}
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			break
		}
		var c captureSummary
		if err == nil && len(all) == 2 {
			err = errors.New("captures: expected one or two files, found more")
		}
		if err == nil {
			c, err = readCapture(r.Context(), l, len(all), fileName(part), part, nil)
		}
		if err != nil {
			refuseCapture(w, err)
			return
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		control.Refuse(w, http.StatusBadRequest, "captures: expected one or two files, found none")
		return
	}
	l.Views(len(all))
	reply(w, opened{all, l.Figure(ladder.Options{All: true})})
}

// fileName returns the name of a file of a form.
func fileName(p *multipart.Part) string {
	if n := p.FileName(); n != "" {
		return capture.Printable(n)
	}
	return "capture"
}

func refuseCapture(w http.ResponseWriter, err error) {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		control.Refuse(w, http.StatusRequestEntityTooLarge,
			"captures: expected at most %d MiB together; softrdma capture --ladder draws larger ones", maxCaptures>>20)
		return
	}
	control.Refuse(w, http.StatusBadRequest, "%v", err)
}

// recorded replies with the ladder of all packets that a device's flight recorder has.
func recorded(w http.ResponseWriter, r *http.Request, s control.Socket) error {
	of := sampler.Target{Socket: s, Device: r.PathValue("device")}
	b, err := readRecord(r.Context(), of)
	if err != nil {
		return err
	}
	l := ladder.New(1)
	l.Recorded()
	c, err := readCapture(r.Context(), l, 0, fmt.Sprintf("flight recorder of %s, process %d", of.Device, s.PID), b, nil)
	if err != nil {
		return err
	}
	reply(w, opened{[]captureSummary{c}, l.Figure(ladder.Options{All: true})})
	return nil
}

// readRecord returns the packets of a device's flight recorder.
func readRecord(ctx context.Context, of sampler.Target) (*bytes.Buffer, error) {
	b := new(bytes.Buffer)
	return b, of.Socket.Ask(ctx, http.MethodGet, control.DevicePath(of.Device, "record?format=pcapng"), nil, b)
}
