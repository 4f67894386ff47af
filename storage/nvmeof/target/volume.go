package target

import (
	"errors"
	"sync"

	"softrdma/storage/block"
	"softrdma/storage/internal/buffers"
	"softrdma/storage/nvmeof/controller"
)

// A volume is what a namespace stores its blocks in.
type volume struct {
	backend  block.Backend
	resident block.Resident // nil if the backend is not
	buffers  *buffers.Budget

	mu      sync.Mutex
	users   int
	removed bool
	idle    chan struct{} // closed when it is removed and has no users
}

// volumeOf returns the volume of a namespace, nil if it has none because the target has not added it.
func volumeOf(n *controller.Namespace) *volume {
	if n == nil {
		return nil
	}
	v, _ := n.Storage.(*volume)
	return v
}

// resident reports whether a namespace's bytes are in memory that responses are sent from.
func resident(n *controller.Namespace) bool {
	v := volumeOf(n)
	return v != nil && v.resident != nil
}

// enter begins an access. It reports false if the namespace has been removed.
func (v *volume) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.removed {
		v.users++
	}
	return !v.removed
}

func (v *volume) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users--; v.users == 0 && v.removed {
		close(v.idle)
	}
}

// remove waits until no access is in progress.
func (v *volume) remove() {
	v.mu.Lock()
	v.removed = true
	if v.users == 0 {
		close(v.idle)
	}
	v.mu.Unlock()
	<-v.idle
}

// AddNamespace adds a namespace to a subsystem, and tells its hosts. The caller closes the backend
// after the target, or after RemoveNamespace.
//
// If the backend is a block.Resident, its memory is registered while hosts use it, and what they read is sent
// from there.
func (t *Target) AddNamespace(sub *controller.Subsystem, id uint32, b block.Backend, readOnly bool) error {
	v := &volume{backend: b, buffers: buffers.NewBudget(t.cfg.Buffers), idle: make(chan struct{})}
	if !b.Blocks() {
		v.resident, _ = b.(block.Resident)
	}
	return t.subs.AddNamespace(sub, &controller.Namespace{
		ID: id, Size: b.Size(), Block: b.BlockSize(), ReadOnly: readOnly,
		Storage: v,
	})
}

// RemoveNamespace removes a namespace of a subsystem and tells its hosts. It returns when no command
// accesses the backend any more.
func (t *Target) RemoveNamespace(sub *controller.Subsystem, id uint32) error {
	n, err := t.subs.RemoveNamespace(sub, id)
	if err != nil {
		return err
	}
	v := volumeOf(n)
	if v == nil {
		return nil
	}
	v.remove()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.adapters {
		err = errors.Join(err, a.forget(v))
	}
	return err
}
