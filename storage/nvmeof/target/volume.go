package target

import (
	"sync"

	"softrdma/storage/block"
	"softrdma/storage/internal/buffers"
	"softrdma/storage/nvmeof/controller"
)

// A volume is what a namespace stores its blocks in.
type volume struct {
	backend block.Backend
	buffers *buffers.Budget

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
func (t *Target) AddNamespace(sub *controller.Subsystem, id uint32, b block.Backend, readOnly bool) error {
	return t.subs.AddNamespace(sub, &controller.Namespace{
		ID: id, Size: b.Size(), Block: b.BlockSize(), ReadOnly: readOnly,
		Storage: &volume{backend: b, buffers: buffers.NewBudget(t.cfg.Buffers), idle: make(chan struct{})},
	})
}

// RemoveNamespace removes a namespace of a subsystem and tells its hosts. It returns when no command
// accesses the backend any more.
func (t *Target) RemoveNamespace(sub *controller.Subsystem, id uint32) error {
	n, err := t.subs.RemoveNamespace(sub, id)
	if err != nil {
		return err
	}
	if v := volumeOf(n); v != nil {
		v.remove()
	}
	return nil
}
