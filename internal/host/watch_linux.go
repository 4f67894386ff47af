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

// quiet is how long the kernel tells nothing after news were lost, until what
// it tells is believed again.
const quiet = 20 * time.Millisecond

// A Watcher follows the state of a port by what the kernel tells of links and
// addresses. While nothing changes it costs nothing: its goroutine sleeps in
// the scheduler, without a thread.
type Watcher struct {
	addr   netip.Addr
	notify func(old, now PortState)

	news  *nl.NetlinkSocket
	asker *netlink.Handle // in the network namespace that Watch was called in
	once  sync.Once
	ended chan struct{}

	// The goroutine's:
	index int
	name  string
	there bool // the interface exists
	lost  bool // news were lost, see lose

	mu    sync.Mutex
	state PortState
	blind bool // the kernel tells no more
}

// Watch follows the interface and the address of a choice. Every change is
// told by notify, on a goroutine of the watcher, until Close. It fails where
// the system forbids netlink sockets, as a sandbox may.
func Watch(c Choice, notify func(old, now PortState)) (*Watcher, error) {
	w := &Watcher{
		addr: c.Addr.Addr().WithZone(""), notify: notify, ended: make(chan struct{}),
		index: c.Interface.Index, name: c.Interface.Name,
	}
	var err error
	w.news, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("watch network interfaces: %w", err)
	}
	if w.asker, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		w.news.Close()
		return nil, fmt.Errorf("watch network interfaces: %w", err)
	}
	// Asked after the subscription, so that no change falls between the two.
	if w.state, err = w.ask(); err != nil {
		w.news.Close()
		w.asker.Close()
		return nil, fmt.Errorf("watch network interface %s: %w", w.name, err)
	}
	go w.run()
	return w, nil
}

// State is the state that was told last; ok is false when the watcher has lost
// the kernel, and is closed.
func (w *Watcher) State() (s PortState, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, !w.blind
}

// Close ends the watch. When it returns, notify is not called any more; notify
// itself must not call it.
func (w *Watcher) Close() {
	w.once.Do(w.news.Close)
	<-w.ended
}

func (w *Watcher) run() {
	defer close(w.ended)
	defer w.asker.Close()
	for {
		list, from, err := w.news.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			w.lose(true)
			continue
		case errors.Is(err, unix.EAGAIN):
			w.lose(false)
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // closed, or for good
			w.mu.Lock()
			w.blind = true
			w.mu.Unlock()
			w.once.Do(w.news.Close)
			return
		case from.Pid != nl.PidKernel:
			continue
		}
		for i := range list {
			w.hear(&list[i])
		}
	}
}

// lose begins, and ends, the time after news were lost. What is left of them
// is old and says nothing: the state is asked for, with each message and for
// the last time when no more come.
func (w *Watcher) lose(lost bool) {
	w.lost = lost
	var patience unix.Timeval
	if lost {
		patience = unix.NsecToTimeval(int64(quiet))
	}
	_ = w.news.SetReceiveTimeout(&patience) // sets a field
	w.refresh()
}

// refresh asks for the state and tells of it.
func (w *Watcher) refresh() {
	if s, err := w.ask(); err == nil {
		w.set(s)
	}
}

// hear takes one message from the kernel.
func (w *Watcher) hear(m *syscall.NetlinkMessage) {
	if w.lost {
		w.refresh()
		return
	}
	s, _ := w.State()
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		// A bridge tells of its ports by the same messages, with its family.
		if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
			return
		}
		l, err := netlink.LinkDeserialize(nil, m.Data)
		if err != nil || !w.ours(l.Attrs()) {
			return
		}
		if w.there = m.Header.Type == unix.RTM_NEWLINK; w.there {
			w.index, w.name = l.Attrs().Index, l.Attrs().Name
			s.Up = running(l.Attrs())
		} else {
			s = PortState{}
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(m.Data) < unix.SizeofIfAddrmsg || int(nl.DeserializeIfAddrmsg(m.Data).Index) != w.index {
			return
		}
		// One address can be there twice, and another one's prefix can cover
		// it: ask whether it still is.
		has, err := w.hasAddr()
		if err != nil {
			return
		}
		s.Addr = has
	}
	w.set(s)
}

// ours tells whether a link is the watched one: by its index or, when that is
// gone, by its name, as an adapter has it that was unplugged and comes back.
func (w *Watcher) ours(a *netlink.LinkAttrs) bool {
	if w.there {
		return a.Index == w.index
	}
	return a.Name == w.name
}

// set makes s the state and tells of it where it is another one.
func (w *Watcher) set(s PortState) {
	w.mu.Lock()
	old := w.state
	w.state = s
	w.mu.Unlock()
	if s != old {
		w.notify(old, s)
	}
}

// ask asks the kernel for the whole state.
func (w *Watcher) ask() (s PortState, err error) {
	l, err := w.asker.LinkByIndex(w.index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		w.there = false
		return s, nil
	}
	if err != nil {
		return s, err
	}
	w.there, s.Up = true, running(l.Attrs())
	s.Addr, err = w.hasAddr()
	return s, err
}

func (w *Watcher) hasAddr() (bool, error) {
	var list []netlink.Addr
	var err error
	for range 5 { // the list may change while it is read
		list, err = w.asker.AddrList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: w.index}}, netlink.FAMILY_ALL)
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

// running tells whether a link is up, also physically where it knows.
func running(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && (a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown)
}
