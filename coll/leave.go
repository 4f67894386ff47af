package coll

import (
	"context"
	"time"

	"softrdma/msg"
)

// close ends the connections. If all members are in close, they leave together: a member that is
// slower must not take the end of a connection for a failure, nor miss what was sent before.
//
//  1. flush: each member waits until what it has sent has arrived. All still receive control messages.
//  2. It receives the watches of others, which so learn that it leaves.
//  3. It waits for the ends of its own watches, and says that it has seen them.
//  4. It waits until others have said that.
func (m *mesh) close(ctx context.Context, failed bool) error {
	m.told(ctx)
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	timeout := leaveTimeout
	if failed {
		timeout = noticeTimeout
	}
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m.flush(limit, failed) // of the notice, if failed
	if failed {
		m.release(limit)
		cancel()
	} else {
		m.leave(limit)
		if m.unreceived.Load() { // connections do not end before their messages
			defer time.AfterFunc(noticeTimeout, cancel).Stop()
		}
	}
	m.mu.Lock()
	m.stop()
	m.control.Cancel()
	m.mu.Unlock()
	for i := range m.links {
		if e := m.links[i].endpoint.Load(); e != nil {
			if !m.links[i].left.Load() {
				cancel() // its watch does not end
			}
			_ = e.Close(limit) // the groups have ended
		}
	}
	return m.pool.close()
}

// told waits until notices of failures were sent. It does not wait long for members that do not
// answer either.
func (m *mesh) told(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.telling.Wait()
	}()
	limit, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	select {
	case <-done:
	case <-limit.Done():
		m.stop() // ends them
		<-done
	}
}

// flush waits until everything that was sent has arrived: a member that has taken a later message
// has the earlier ones. After a failure it does not wait for members that know of it, which may have
// ended.
func (m *mesh) flush(ctx context.Context, failed bool) {
	sent := make([]*msg.Request, len(m.links))
	for i := range m.links {
		l := &m.links[i]
		if e := l.endpoint.Load(); e != nil && !(failed && l.informed.Load()) {
			sent[i] = e.Send(m.tag(m.rank, 0, 0, whatFlush)|tagControl, nil, &msg.SendOptions{Sync: true})
		}
	}
	for i, r := range sent {
		if r == nil {
			continue
		}
		select {
		case <-r.Done():
		case <-m.links[i].ended: // it takes nothing more
		case <-ctx.Done():
			return
		}
	}
}

// watches returns the tag and mask of the watches of other members.
func (m *mesh) watches() (tag, mask uint64) {
	const bits = tagPackage | tagControl | whatWatch
	return bits | m.id<<shiftID, bits | MaxID<<shiftID
}

// release receives the watches of other members, and returns their number.
func (m *mesh) release(ctx context.Context) (n int) {
	tag, mask := m.watches()
	for x := m.w.Claim(tag, mask); x != nil; x = m.w.Claim(tag, mask) {
		if _, err := m.w.ReceiveMessage(nil, x).Wait(ctx); err == nil {
			n++
		}
	}
	return n
}

// leave does the steps 2 to 4 of close.
func (m *mesh) leave(ctx context.Context) {
	released := make(chan struct{}, 1)
	waiting := m.release(ctx)
	tag, mask := m.watches()
	late := m.w.Receive(nil, tag, mask) // of a member that has just connected
	late.Then(func(_ msg.Info, err error) {
		if err == nil {
			released <- struct{}{}
		}
	})
	defer late.Cancel()
	for i := range m.links {
		l := &m.links[i]
		e := l.endpoint.Load()
		if e == nil {
			continue
		}
		select {
		case <-l.ended:
			if l.left.Load() {
				e.Send(m.tag(m.rank, 0, 0, whatSeen)|tagControl, nil, nil)
			}
		case <-ctx.Done():
			return
		}
	}
	for waiting > 0 {
		select {
		case <-m.seen:
			waiting--
		case <-released:
			waiting++
		case <-ctx.Done():
			return
		}
	}
}
