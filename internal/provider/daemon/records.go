//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"softrdma/internal/object"
	"sync/atomic"
	"time"
)

// records is a pipe of records of one size that the daemon writes. One at a
// time reads, others wait for their turn.
type records struct {
	d    *Device
	f    *os.File
	fd   int // the same, by which the daemon knows the pipe
	size int
	turn chan struct{} // holds a token while nobody reads
	gone atomic.Bool   // closed by this process, but not with the device
}

// newRecords takes a descriptor over.
func (d *Device) newRecords(fd, size int, name string) (*records, error) {
	f, err := pollable(fd, name)
	if err != nil {
		return nil, err
	}
	r := &records{d: d, f: f, fd: fd, size: size, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = f.Close()
		return nil, object.ErrClosed
	}
	d.pipes[r] = struct{}{}
	return r, nil
}

// errKicked is what next returns to who has to look at something else.
var errKicked = errors.New("kicked")

// kick makes the current read, or else the next one, return errKicked.
func (r *records) kick() { _ = r.f.SetReadDeadline(time.Unix(1, 0)) }

// next reads a record, and waits for one until ctx ends.
func (r *records) next(ctx context.Context, b []byte) error {
	for {
		err := r.read(ctx, b, func() bool { return false })
		if !errors.Is(err, errKicked) {
			return err
		}
	}
}

// read is next, until look tells that there is something else: it is asked
// before each time that there is nothing to read, and after a kick.
func (r *records) read(ctx context.Context, b []byte, look func() bool) error {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	// A kick may come late, for another reader: it costs a turn of the loop.
	defer context.AfterFunc(ctx, r.kick)()
	for {
		if look() {
			return errKicked
		}
		n, err := r.f.Read(b)
		switch {
		case n == r.size:
			return nil // records are written whole
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := r.f.SetReadDeadline(time.Time{}); err != nil {
				return r.ended()
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		case err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed):
			return r.ended()
		default:
			return fmt.Errorf("events of the daemon: %w", err)
		}
	}
}

// ended is why nothing more comes.
func (r *records) ended() error {
	if r.gone.Load() {
		return object.ErrDestroyed
	}
	return object.ErrClosed
}

// close ends it: who reads finds that out.
func (r *records) close() { _ = r.f.Close() }

// destroy is close, of one that goes before its device.
func (r *records) destroy() {
	r.gone.Store(true)
	r.d.mu.Lock()
	delete(r.d.pipes, r)
	r.d.mu.Unlock()
	r.close()
}
