package ucx

// Waiters returns how many calls of Wait sleep.
func (w *UcpWorker) Waiters() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiters
}

// StatusOf returns the status of an error of a lower package.
func StatusOf(err error) UcsStatus { return statusOf(err) }
