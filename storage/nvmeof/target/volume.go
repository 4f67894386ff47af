package target

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

// remove ends the use of the volume. idle is closed when no access is in progress any more.
func (v *volume) remove() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.removed = true
	if v.users == 0 {
		close(v.idle)
	}
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
// accesses the backend any more. Connections end whose hosts do not take the data of reads that have begun
// within 30 s.
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
	select {
	case <-v.idle:
	case <-time.After(stallTime):
		t.endReaders(v)
		<-v.idle
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.adapters {
		err = errors.Join(err, a.forget(v))
	}
	return err
}

// endReaders ends the connections to whose hosts data of a volume is being sent.
func (t *Target) endReaders(v *volume) {
	for _, q := range t.all() {
		if q.sends(v) {
			q.end(fmt.Errorf("expected the host to take data of a namespace that was removed within %v", stallTime))
		}
	}
}

// sends reports whether data of a volume is being sent from its memory.
func (q *queue) sends(v *volume) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.tasks, func(t *task) bool { return t.volume.Load() == v })
}
