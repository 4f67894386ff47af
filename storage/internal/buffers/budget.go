package buffers

import "sync"

// A Budget bounds how much of something is in use. Callers get theirs in order, so that large
// requests are not passed over. Its methods may be called from any goroutine.
type Budget struct {
	turn chan struct{} // held by the first waiter
	mu   sync.Mutex
	free int
	more chan struct{} // has an element after a release
}

// NewBudget returns a budget of n.
func NewBudget(n int) *Budget {
	return &Budget{turn: make(chan struct{}, 1), free: n, more: make(chan struct{}, 1)}
}

// Try takes n, and reports false if that is not possible at once.
func (b *Budget) Try(n int) bool {
	select {
	case b.turn <- struct{}{}:
	default:
		return false // others wait
	}
	defer func() { <-b.turn }()
	return b.enough(n)
}

func (b *Budget) enough(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free < n {
		return false
	}
	b.free -= n
	return true
}

// Take takes n when there is as much. It reports false if done was closed first.
func (b *Budget) Take(n int, done <-chan struct{}) bool {
	select {
	case b.turn <- struct{}{}:
	case <-done:
		return false
	}
	defer func() { <-b.turn }()
	for !b.enough(n) {
		select {
		case <-b.more:
		case <-done:
			return false
		}
	}
	return true
}

// Release gives n back.
func (b *Budget) Release(n int) {
	b.mu.Lock()
	b.free += n
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}
