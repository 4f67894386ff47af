package format

import (
	"errors"
	"fmt"

	"softrdma/internal/message"
	"softrdma/rdmacm"
)

// ErrStale is matched by the error of a request to a worker that has closed.
var ErrStale = errors.New("the worker with this address has closed")

// Fits returns an error that matches rdmacm.ErrPrivateData if a program's private data are too long.
func Fits(private []byte, most int) error {
	if len(private) > most {
		return fmt.Errorf("%w: %d bytes, expected at most %d", rdmacm.ErrPrivateData, len(private), most)
	}
	return nil
}

// Refusal names the reason for which a worker rejected a connection.
func Refusal(err error, a *Address, rail int) error {
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) {
		return err
	}
	h, wrong := ParseHello(rejected.PrivateData)
	switch {
	case errors.Is(wrong, message.ErrVersion):
		return fmt.Errorf("%w: %w", wrong, err)
	case wrong != nil:
		return fmt.Errorf("%w: no worker at %v: %w", ErrStale, a.Rails[rail].Listener, err)
	case h.Worker != a.Worker:
		return fmt.Errorf("%w: worker %#x at %v, expected %#x: %w", ErrStale, h.Worker, a.Rails[rail].Listener, a.Worker, err)
	}
	return err
}
