// Package bubble runs whole stacks (devices with their goroutines, connection managers and the
// packages above them) on a simulated network, with the clock of a testing/synctest bubble.
// Time passes only while all goroutines of the bubble wait, so time-outs take no time, and a
// bubble whose goroutines do not end fails its test.
//
// It owns the network and its links, and drives no device: devices drive themselves. Unlike
// package rig it does not repeat a run exactly, because goroutines run in any order. It is not
// part of the product; only tests import it.
package bubble

import (
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
	"softrdma/internal/registry"
	"softrdma/internal/simnet"
	"softrdma/verbs"
)

// limit is the limit of virtual time of a world, for programs that would keep themselves busy.
const limit = time.Hour

// A World is a network and the hosts on it. It belongs to one bubble.
type World struct {
	epoch  time.Time
	wake   chan struct{} // for the delivering goroutine
	ended  chan struct{}
	config simnet.LinkConfig

	mu    sync.Mutex // guards the fields below and the network
	net   *simnet.Network
	hosts []*Host
	sent  int // batches
	steps map[int]func()
}

// New makes a network whose links have a configuration, and whose faults are drawn from seed.
// The caller closes its devices before it calls End.
func New(seed uint64, c simnet.LinkConfig) *World {
	w := &World{epoch: time.Now(), wake: make(chan struct{}, 1), ended: make(chan struct{}), config: c, net: simnet.New(seed), steps: map[int]func(){}}
	go w.deliver()
	return w
}

// End ends the delivery of packets.
func (w *World) End() { close(w.ended) }

// At calls f in a goroutine when the given number of batches has been sent on the network.
func (w *World) At(batches int, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps[batches] = f
}

// Sent returns how many batches of packets have been sent.
func (w *World) Sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// A Host is a device on the network, in its own stack.
type Host struct {
	Device *verbs.Device

	w    *World
	link *Link
	dead bool // guarded by the world's lock
}

// Open opens a device on a loopback address, which is only a name: its packets go through the
// network.
func (w *World) Open(address string) (*Host, error) {
	h := &Host{w: w}
	stack := verbs.NewStack()
	registry.OfStack(stack).Networks = func(at netip.AddrPort) ([]frame.Network, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		h.link = &Link{Link: w.net.Attach(at, w.config), h: h, wake: make(chan struct{}, 1)}
		w.hosts = append(w.hosts, h)
		return rocev2.Networks([]*Link{h.link}), nil
	}
	var err error
	h.Device, err = stack.Open(address, verbs.Config{Spin: -1, NoLoopback: true, SameHost: verbs.SameHostOff})
	return h, err
}

// Kill drops all packets from and to the host from now on, as if it had lost power.
func (h *Host) Kill() {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.dead = true
}

// Restore undoes Kill.
func (h *Host) Restore() {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.dead = false
}

// deliver delivers packets when they are due.
func (w *World) deliver() {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-w.ended:
			return
		case <-w.wake:
		case <-t.C:
		}
		if time.Since(w.epoch) > limit {
			panic("bubble: a program is busy after " + limit.String() + " of virtual time")
		}
		w.mu.Lock()
		w.advance()
		next, any := w.net.Next()
		w.mu.Unlock()
		if any {
			t.Reset(next - time.Since(w.epoch))
		}
	}
}

// advance moves the network to the current time and wakes links that received packets. The
// caller holds the lock.
func (w *World) advance() {
	w.net.Sleep(time.Since(w.epoch) - w.net.Clock())
	for _, h := range w.hosts {
		if h.link.Waiting() {
			h.link.Wake()
		}
	}
}

// A Link is a link of a host: a simnet.Link with a lock and a blocking Wait.
type Link struct {
	*simnet.Link
	h    *Host
	wake chan struct{}
}

func (l *Link) lock() (unlock func()) {
	l.h.w.mu.Lock()
	return l.h.w.mu.Unlock
}

// OpenFlow implements link.Datagrams.
func (l *Link) OpenFlow(dst netip.AddrPort, label uint32) (*link.DatagramFlow, error) {
	defer l.lock()()
	return l.Link.OpenFlow(dst, label)
}

// Reply implements link.Datagrams.
func (l *Link) Reply(dst netip.AddrPort) (*link.DatagramFlow, error) {
	defer l.lock()()
	return l.Link.Reply(dst)
}

// OpenReturn implements link.Returner.
func (l *Link) OpenReturn(dst netip.AddrPort) (*link.DatagramFlow, error) {
	defer l.lock()()
	return l.Link.OpenReturn(dst)
}

// CloseFlow implements link.Datagrams.
func (l *Link) CloseFlow(f *link.Flow) {
	defer l.lock()()
	l.Link.CloseFlow(f)
}

// Send implements link.Packets.
func (l *Link) Send(tx *link.Tx) error {
	defer l.lock()()
	w := l.h.w
	w.sent++
	if f := w.steps[w.sent]; f != nil {
		delete(w.steps, w.sent)
		go f()
	}
	if l.h.dead {
		return nil
	}
	w.advance()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return l.Link.Send(tx)
}

// Receive implements link.Packets.
func (l *Link) Receive(rx *link.Rx) (bool, error) {
	defer l.lock()()
	any, err := l.Link.Receive(rx)
	for any && l.h.dead {
		any, err = l.Link.Receive(rx)
	}
	return any, err
}

// Wait implements link.Waiter.
func (l *Link) Wait(d time.Duration) error {
	var timeout <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-l.wake:
	case <-timeout:
	}
	return nil
}

// Wake implements link.Waiter.
func (l *Link) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Join implements link.Datagrams.
func (l *Link) Join(group netip.Addr) error {
	defer l.lock()()
	return l.Link.Join(group)
}

// Leave implements link.Datagrams.
func (l *Link) Leave(group netip.Addr) error {
	defer l.lock()()
	return l.Link.Leave(group)
}

// Close implements link.Waiter.
func (l *Link) Close() error {
	defer l.lock()()
	l.Wake()
	return l.Link.Close()
}
