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
	"os"
	"sync"
	"syscall"
)

// maxReply bounds what a process answers.
const maxReply = 256 << 20

// Ask sends a request to the process of a socket, with the body in if it is not nil, and reads the
// reply into out, a pointer for JSON or an io.Writer for the bytes. An error of the process has its text.
func (s Socket) Ask(ctx context.Context, method, path string, in []byte, out any) error {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Path)
	}}
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, method, "http://process"+path, bytes.NewReader(in))
	if err != nil {
		return err
	}
	a, err := (&http.Client{Transport: t}).Do(r)
	if err != nil {
		return fmt.Errorf("process %d: %w", s.PID, err)
	}
	defer a.Body.Close()
	body := io.LimitReader(a.Body, maxReply)
	if a.StatusCode != http.StatusOK {
		var refusal struct{ Error string }
		if json.NewDecoder(body).Decode(&refusal) != nil || refusal.Error == "" {
			refusal.Error = a.Status
		}
		return fmt.Errorf("process %d: %s", s.PID, refusal.Error)
	}
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

// An Answer is what a process says of itself.
type Answer struct {
	Socket
	Process
}

// Processes asks all processes of this user that have devices. Sockets that ended processes have left
// are removed. Processes that do not answer until the context ends are in the error.
func Processes(ctx context.Context) (all []Answer, err error) {
	sockets, err := Sockets()
	if err != nil {
		return nil, err
	}
	answers, failures := make([]Answer, len(sockets)), make([]error, len(sockets))
	var asking sync.WaitGroup
	for i, s := range sockets { // at once: one that does not answer delays no other
		answers[i].Socket = s
		asking.Go(func() { failures[i] = s.Ask(ctx, http.MethodGet, "/v1/process", nil, &answers[i].Process) })
	}
	asking.Wait()
	for i, e := range failures {
		switch {
		case errors.Is(e, syscall.ECONNREFUSED):
			_ = os.Remove(sockets[i].Path) // by an ended process
		case errors.Is(e, os.ErrNotExist):
		case e != nil:
			err = errors.Join(err, e)
		default:
			all = append(all, answers[i])
		}
	}
	return all, err
}
