package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"softrdma/internal/rundir"
)

// maxReply bounds what a process answers.
const maxReply = 256 << 20

// DevicePath returns the route of what a device of a name has: objects, record, faults or events.
func DevicePath(name, what string) string { return "/v1/devices/" + url.PathEscape(name) + "/" + what }

// Ask sends a request to the process of a socket, with the body in if it is not nil, and reads the
// reply into out, a pointer for JSON or an io.Writer for the bytes. An error of the process has its text.
func (s Socket) Ask(ctx context.Context, method, path string, in []byte, out any) error {
	reply, err := s.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer reply.Close()
	body := io.LimitReader(reply, maxReply)
	if w, ok := out.(io.Writer); ok {
		_, err = io.Copy(w, body)
	} else {
		err = json.NewDecoder(body).Decode(out)
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", s.PID, err)
	}
	return nil
}

// Events calls f with what happens to a device from now on, until the context ends, the device closes or
// f returns an error. Only the latter is returned, and that the process or the device is not there.
func (s Socket) Events(ctx context.Context, device string, f func(Event) error) error {
	reply, err := s.open(ctx, http.MethodGet, DevicePath(device, "events"), nil)
	if err != nil {
		return err
	}
	defer reply.Close()
	for d := json.NewDecoder(reply); ; {
		var e Event
		if d.Decode(&e) != nil {
			return nil
		}
		if err := f(e); err != nil {
			return err
		}
	}
}

// open sends a request and returns the reply's body.
func (s Socket) open(ctx context.Context, method, path string, in []byte) (io.ReadCloser, error) {
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Path)
	}}
	r, err := http.NewRequestWithContext(ctx, method, "http://process"+path, bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	a, err := (&http.Client{Transport: t}).Do(r)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, which is of no host
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer in time: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", s.PID, err)
	}
	if a.StatusCode == http.StatusOK {
		return a.Body, nil
	}
	defer a.Body.Close()
	var refusal struct{ Error string }
	if json.NewDecoder(io.LimitReader(a.Body, maxReply)).Decode(&refusal) != nil || refusal.Error == "" {
		refusal.Error = a.Status
	}
	return nil, fmt.Errorf("process %d: %w", s.PID, &refused{a.StatusCode, refusal.Error})
}

// A refused is an error that a process has answered.
type refused struct {
	status int
	text   string
}

// Error implements error.
func (r *refused) Error() string { return r.text }

// Gone reports whether an error of a request says that the device or the process does not exist any more.
func Gone(err error) bool {
	r, ok := errors.AsType[*refused](err)
	return ok && r.status == http.StatusNotFound ||
		rundir.Refused(err) || errors.Is(err, os.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// An Answer is what a process says of itself.
type Answer struct {
	Socket
	Process
}

// Processes is [Asker.Processes] for one question.
func Processes(ctx context.Context) ([]Answer, error) { return new(Asker).Processes(ctx) }

// Processes asks all processes of this user that have devices. Sockets that ended processes have left
// are removed. Processes that do not answer until the context ends are in the error.
func (a *Asker) Processes(ctx context.Context) (all []Answer, err error) {
	sockets, err := Sockets()
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(sockets))
	failures := EachAtOnce(sockets, func(i int, s Socket) error {
		answers[i].Socket = s
		return a.Ask(ctx, s, http.MethodGet, "/v1/process", nil, &answers[i].Process)
	})
	for i, e := range failures {
		switch {
		case rundir.Refused(e):
			_ = rundir.RemoveDead(sockets[i].Path) // it stays if another process answers there
		case errors.Is(e, os.ErrNotExist):
		case e != nil:
			err = errors.Join(err, e)
		default:
			all = append(all, answers[i])
		}
	}
	return all, err
}

// EachAtOnce calls f for all elements of a list at once, so that a process that does not answer delays no
// other, and returns the errors.
func EachAtOnce[T any](list []T, f func(i int, x T) error) []error {
	errs := make([]error, len(list))
	var calls sync.WaitGroup
	for i, x := range list {
		calls.Go(func() { errs[i] = f(i, x) })
	}
	calls.Wait()
	return errs
}

// Ended removes the socket of a process that has ended without doing so. Another process may have its
// number in another namespace, and answer there.
func Ended(pid int) {
	if dir := Directory(); dir != "" && rundir.Check(dir) == nil {
		_ = rundir.RemoveDead(filepath.Join(dir, strconv.Itoa(pid))) // it stays if another process answers there
	}
}
