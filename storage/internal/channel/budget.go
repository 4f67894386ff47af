package channel

import "sync"

// A budget bounds how much of something is in use. Callers get theirs in order, so that large
// requests are not passed over.
type budget struct {
	turn chan struct{} // held by the first waiter
	mu   sync.Mutex
	free int
	more chan struct{} // has an element after a release
}

func newBudget(n int) *budget {
	return &budget{turn: make(chan struct{}, 1), free: n, more: make(chan struct{}, 1)}
}

// take takes n, and reports false if done was closed first.
func (b *budget) take(n int, done <-chan struct{}) bool {
	select {
	case b.turn <- struct{}{}:
	case <-done:
		return false
	}
	defer func() { <-b.turn }()
	for {
		b.mu.Lock()
		enough := b.free >= n
		if enough {
			b.free -= n
		}
		b.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-b.more:
		case <-done:
			return false
		}
	}
}

func (b *budget) release(n int) {
	b.mu.Lock()
	b.free += n
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}
