//go:build kubernetes

package kubernetes

import "sync"

// A health is whether containers can use the devices now, and tells waiters of changes.
type health struct {
	mu      sync.Mutex
	err     error // why they cannot
	changed chan struct{}
}

func newHealth() *health { return &health{changed: make(chan struct{})} }

// set reports whether the error, or its absence, is new.
func (h *health) set(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if text(err) == text(h.err) {
		return false
	}
	h.err = err
	close(h.changed)
	h.changed = make(chan struct{})
	return true
}

// get returns the error, and a channel that is closed when it changes.
func (h *health) get() (err error, changed <-chan struct{}) { //nolint:revive,staticcheck // the error is a value here
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err, h.changed
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
