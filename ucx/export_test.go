package ucx

// Waiters returns how many calls of Wait sleep.
func (w *UcpWorker) Waiters() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiters
}

// Queued returns how many events wait for Progress.
func (w *UcpWorker) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// StatusOf returns the status of an error of a lower package.
func StatusOf(err error) UcsStatus { return statusOf(err) }
