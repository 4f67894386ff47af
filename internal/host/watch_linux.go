package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// quiet is the time without messages after a loss, until the Watcher trusts the
// contents of messages again.
const quiet = 20 * time.Millisecond

// A Watcher follows the state of a port by the kernel's netlink messages about links
// and addresses. An idle Watcher costs nothing: its goroutine sleeps in Go's netpoller,
// without a thread.
type Watcher struct {
	addr   netip.Addr
	notify func(old, now PortState)

	messages *nl.NetlinkSocket
	queries  *netlink.Handle // in the network namespace of Watch's caller
	once     sync.Once
	ended    chan struct{}

	// Used by the goroutine only:
	index  int
	name   string
	exists bool // the interface exists
	lost   bool // messages were lost, see setLost

	mu     sync.Mutex
	state  PortState
	failed bool // no more messages will arrive
}

// Watch follows the interface and the address of a choice. It calls notify for every
// change, on the watcher's goroutine, until Close. It fails if the system forbids
// netlink sockets, as a sandbox may.
func Watch(c Choice, notify func(old, now PortState)) (*Watcher, error) {
	w := &Watcher{
		addr: c.Addr.Addr().WithZone(""), notify: notify, ended: make(chan struct{}),
		index: c.Interface.Index, name: c.Interface.Name,
	}
	var err error
	w.messages, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("watch network interfaces: %w", err)
	}
	if w.queries, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		w.messages.Close()
		return nil, fmt.Errorf("watch network interfaces: %w", err)
	}
	// The query follows the subscription, so that no change is missed.
	if w.state, err = w.query(); err != nil {
		w.messages.Close()
		w.queries.Close()
		return nil, fmt.Errorf("watch network interface %s: %w", w.name, err)
	}
	go w.run()
	return w, nil
}

// State returns the latest state. ok is false if the watcher has failed or is closed.
func (w *Watcher) State() (s PortState, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, !w.failed
}

// Close ends the watch. notify is not called after Close returns. notify must not call
// Close.
func (w *Watcher) Close() {
	w.once.Do(w.messages.Close)
	<-w.ended
}

func (w *Watcher) run() {
	defer close(w.ended)
	defer w.queries.Close()
	for {
		list, from, err := w.messages.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			w.setLost(true)
			continue
		case errors.Is(err, unix.EAGAIN):
			w.setLost(false)
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // closed or failed
			w.mu.Lock()
			w.failed = true
			w.mu.Unlock()
			w.once.Do(w.messages.Close)
			return
		case from.Pid != nl.PidKernel:
			continue
		}
		for i := range list {
			w.handle(&list[i])
		}
	}
}

// setLost begins or ends the period after a loss of messages. In this period the
// remaining messages may be outdated, so the watcher queries the state at each message
// and once more when no more arrive.
func (w *Watcher) setLost(lost bool) {
	w.lost = lost
	var timeout unix.Timeval
	if lost {
		timeout = unix.NsecToTimeval(int64(quiet))
	}
	_ = w.messages.SetReceiveTimeout(&timeout) // never fails
	w.refresh()
}

// refresh queries the state and reports changes.
func (w *Watcher) refresh() {
	if s, err := w.query(); err == nil {
		w.set(s)
	}
}

// handle handles one message from the kernel.
func (w *Watcher) handle(m *syscall.NetlinkMessage) {
	if w.lost {
		w.refresh()
		return
	}
	s, _ := w.State()
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		// A bridge reports its ports with the same messages, but another family.
		if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
			return
		}
		l, err := netlink.LinkDeserialize(nil, m.Data)
		if err != nil || !w.ours(l.Attrs()) {
			return
		}
		if w.exists = m.Header.Type == unix.RTM_NEWLINK; w.exists {
			w.index, w.name = l.Attrs().Index, l.Attrs().Name
			s.Up = running(l.Attrs())
		} else {
			s = PortState{}
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(m.Data) < unix.SizeofIfAddrmsg || int(nl.DeserializeIfAddrmsg(m.Data).Index) != w.index {
			return
		}
		// The address may be configured twice, or be covered by another one's
		// prefix: query whether the interface still has it.
		has, err := w.hasAddr()
		if err != nil {
			return
		}
		s.Addr = has
	}
	w.set(s)
}

// ours reports whether a link is the watched one: by its index or, if the interface
// does not exist, by its name, because an adapter that is unplugged and plugged in again
// gets a new index.
func (w *Watcher) ours(a *netlink.LinkAttrs) bool {
	if w.exists {
		return a.Index == w.index
	}
	return a.Name == w.name
}

// set sets the state and calls notify if it has changed.
func (w *Watcher) set(s PortState) {
	w.mu.Lock()
	old := w.state
	w.state = s
	w.mu.Unlock()
	if s != old {
		w.notify(old, s)
	}
}

// query queries the whole state.
func (w *Watcher) query() (s PortState, err error) {
	l, err := w.queries.LinkByIndex(w.index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		w.exists = false
		return s, nil
	}
	if err != nil {
		return s, err
	}
	w.exists, s.Up = true, running(l.Attrs())
	s.Addr, err = w.hasAddr()
	return s, err
}

func (w *Watcher) hasAddr() (bool, error) {
	var list []netlink.Addr
	var err error
	for range 5 { // retry if the list changes while it is read
		list, err = w.queries.AddrList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: w.index}}, netlink.FAMILY_ALL)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return false, err
	}
	for _, x := range list {
		if a, ok := netip.AddrFromSlice(x.IP); ok && a.Unmap() == w.addr {
			return true, nil
		}
		if w.addr.Is4() && w.addr.IsLoopback() && x.IPNet.Contains(net.IP(w.addr.AsSlice())) {
			return true, nil
		}
	}
	return false, nil
}

// running reports whether a link is up, physically too if its driver reports that.
func running(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && (a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown)
}
