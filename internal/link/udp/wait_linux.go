//go:build linux && !softrdma_portable

package udp

import (
	"fmt"
	"time"

	"softrdma/internal/link"
)

// Wake ends the current or the next Wait.
func (l *Link) Wake() {
	if l.sleeper.Set() && l.life.Enter() {
		l.sleeper.Interrupt()
		l.life.Leave()
	}
}

// Watch implements link.Watcher.
func (l *Link) Watch(fd int) { l.watched = fd }

// Wait blocks until something can be received, Wake or Close is called or d has
// passed; d < 0 means no limit. It blocks a thread, not the scheduler.
func (l *Link) Wait(d time.Duration) error {
	if !l.life.Enter() {
		return link.ErrClosed
	}
	defer l.life.Leave()
	if l.left.Load() {
		return nil
	}
	quiet := l.trimsAfter()
	trim := quiet > 0 && (d < 0 || d > quiet)
	var start time.Time
	if trim { // the next Receive frees what is not needed
		d, start = quiet, time.Now()
	}
	ready, err := l.sleeper.Sleep(&l.life, d, l.rx.fd, l.group.epoll, l.watched)
	switch {
	case l.life.Closed():
		return link.ErrClosed
	case err != nil:
		return fmt.Errorf("wait for packets: %w", err)
	case trim && ready == 0 && time.Since(start) >= quiet:
		l.quiet.Store(int64(quiet))
	}
	return nil
}

// trimsAfter returns how long nothing is to be received before something can be freed, 0 if nothing can.
func (l *Link) trimsAfter() time.Duration {
	switch {
	case l.flows.kept.Load():
		return keptTime
	case l.buffer.grown.Load():
		return l.buffer.keep
	}
	return 0
}
