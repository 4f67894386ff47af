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

// records is a pipe from which this process reads records of one size that the
// daemon writes. One goroutine reads at a time, and others wait for their turn.
type records struct {
	d    *Device
	f    *os.File
	fd   int // the pipe's descriptor
	size int
	turn chan struct{} // holds a token while no goroutine reads
	gone atomic.Bool   // destroyed by this process before the device
}

// newRecords returns the records of a descriptor, which it owns from then on.
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

// errKicked is the error of a read that kick interrupted.
var errKicked = errors.New("kicked")

// kick makes the current read, or else the next one, return errKicked.
func (r *records) kick() { _ = r.f.SetReadDeadline(time.Unix(1, 0)) }

// next waits for a record and reads it.
func (r *records) next(ctx context.Context, b []byte) error {
	for {
		err := r.read(ctx, b, func() bool { return false })
		if !errors.Is(err, errKicked) {
			return err
		}
	}
}

// read is next with a condition: if look returns true, read returns errKicked. It
// calls look before it waits and after each kick.
func (r *records) read(ctx context.Context, b []byte, look func() bool) error {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	// A kick that was meant for an earlier reader only repeats the loop.
	defer context.AfterFunc(ctx, r.kick)()
	for {
		if look() {
			return errKicked
		}
		n, err := r.f.Read(b)
		switch {
		case n == r.size:
			return nil // the daemon writes whole records
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

// ended returns why there are no more records.
func (r *records) ended() error {
	if r.gone.Load() {
		return object.ErrDestroyed
	}
	return object.ErrClosed
}

// close closes the pipe, which ends waiting reads.
func (r *records) close() { _ = r.f.Close() }

// destroy is close for records that end before their device.
func (r *records) destroy() {
	r.gone.Store(true)
	r.d.mu.Lock()
	delete(r.d.pipes, r)
	r.d.mu.Unlock()
	r.close()
}
