package target

import (
	"errors"

	"softrdma/storage/internal/buffers"
	"softrdma/verbs"
)

// An adapter has what the queues of one device share.
type adapter struct {
	pd     *verbs.PD
	pool   *buffers.Pool
	queues int // that use it
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
	return errors.Join(a.pool.Close(), a.pd.Dealloc())
}
