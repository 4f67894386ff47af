package target

import (
	"errors"
	"sync"

	"softrdma/storage/internal/buffers"
	"softrdma/verbs"
)

// An adapter has what the queues of one device share.
type adapter struct {
	pd     *verbs.PD
	pool   *buffers.Pool
	queues int // that use it

	mu      sync.Mutex
	regions map[*volume]*verbs.MR // of resident backends
}

// region returns the region of a resident backend's memory. It is registered when a host first reads from
// it. The caller has entered the volume.
func (a *adapter) region(v *volume) (*verbs.MR, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if mr := a.regions[v]; mr != nil {
		return mr, nil
	}
	mr, err := a.pd.RegisterMemory(v.resident.Memory(), 0)
	if err != nil {
		return nil, err
	}
	if a.regions == nil {
		a.regions = make(map[*volume]*verbs.MR)
	}
	a.regions[v] = mr
	return mr, nil
}

// forget deregisters a backend's memory. No queue uses it.
func (a *adapter) forget(v *volume) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	mr := a.regions[v]
	if mr == nil {
		return nil
	}
	delete(a.regions, v)
	return mr.Deregister()
}

// close frees all memory. No queue uses the adapter.
func (a *adapter) close() (err error) {
	for _, mr := range a.regions {
		err = errors.Join(err, mr.Deregister())
	}
	return errors.Join(err, a.pool.Close(), a.pd.Dealloc())
}

// adapterOf returns the adapter of a device, for one queue more.
func (t *Target) adapterOf(dev *verbs.Device) (*adapter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.adapters[dev]
	if a == nil {
		pd, err := dev.AllocPD()
		if err != nil {
			return nil, err
		}
		a = &adapter{pd: pd, pool: buffers.NewPool(pd, t.cfg.Buffers)}
		t.adapters[dev] = a
	}
	a.queues++
	return a, nil
}

// release says that a queue does not use the adapter any more. The last one frees its memory.
func (t *Target) release(dev *verbs.Device, a *adapter) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.queues--; a.queues > 0 {
		return nil
	}
	delete(t.adapters, dev)
	return a.close()
}
