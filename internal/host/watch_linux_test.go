package host

import (
	"errors"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
)

// A recorder records the changes that a watcher reports.
type recorder chan [2]PortState

func (c recorder) notify(old, now PortState) { c <- [2]PortState{old, now} }

// want waits for one change and checks it.
func (c recorder) want(t *testing.T, old, now PortState) {
	t.Helper()
	select {
	case got := <-c:
		if got != [2]PortState{old, now} {
			t.Errorf("reported %+v, expected %+v to %+v", got, old, now)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("no change reported, expected %+v to %+v", old, now)
		runtime.Goexit()
	}
}

var (
	good  = PortState{Up: true, Addr: true}
	down  = PortState{Addr: true}
	naked = PortState{Up: true}
)

func TestWatchReportsLinkAndAddress(t *testing.T) {
	hosttest.InNamespace(t, func(t *testing.T) {
		l, _ := hosttest.Cable(t, "port0", "10.1.2.3/24")
		c, err := Resolve("port0")
		hosttest.Must(t, err)
		told := make(recorder, 10)
		w, err := Watch(c, told.notify)
		hosttest.Must(t, err)
		if s, ok := w.State(); !ok || s != good {
			t.Errorf("state %+v", s)
		}
		hosttest.Must(t, netlink.LinkSetDown(l))
		told.want(t, good, down)
		hosttest.Must(t, netlink.LinkSetUp(l))
		told.want(t, down, good)
		a, err := netlink.ParseAddr("10.1.2.3/24")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.AddrDel(l, a))
		told.want(t, good, naked)
		if s, _ := w.State(); s != naked {
			t.Errorf("state %+v", s)
		}
		hosttest.Must(t, netlink.AddrAdd(l, a))
		told.want(t, naked, good)

		// Not reported: another interface, another address, another prefix of it.
		other, _ := hosttest.Cable(t, "port1", "10.9.9.9/24")
		hosttest.Must(t, netlink.LinkSetDown(other))
		more, err := netlink.ParseAddr("10.1.2.4/24")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.AddrAdd(l, more))
		hosttest.Must(t, netlink.AddrDel(l, more))
		twice, err := netlink.ParseAddr("10.1.2.3/16")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.AddrAdd(l, twice))
		hosttest.Must(t, netlink.AddrDel(l, a))
		hosttest.Must(t, netlink.LinkSetMTU(l, 1400))

		// An adapter that is unplugged and plugged in again gets another index.
		hosttest.Must(t, netlink.LinkDel(l))
		for s := good; s != (PortState{}); { // addresses may be removed before the link
			change := <-told
			if change[0] != s || change[1].Up && change[1].Addr {
				t.Errorf("reported %+v", change)
			}
			s = change[1]
		}
		hosttest.Cable(t, "port0", "10.1.2.3/24")
		for s := (PortState{}); s != good; {
			change := <-told
			s = change[1]
		}
		w.Close()
		w.Close()
		hosttest.Must(t, netlink.LinkDel(other))
		if n := len(told); n != 0 {
			t.Errorf("%d changes reported after the last one", n)
		}
	})
}

func TestWatchLoopbackHasWholePrefix(t *testing.T) {
	hosttest.InNamespace(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.LinkSetUp(lo))
		c, err := Resolve("127.7.8.9")
		hosttest.Must(t, err)
		told := make(recorder, 10)
		w, err := Watch(c, told.notify)
		hosttest.Must(t, err)
		defer w.Close()
		if s, ok := w.State(); !ok || s != good {
			t.Errorf("state %+v, %v", s, ok)
		}
		if s, err := State(c); err != nil || s != good {
			t.Errorf("queried: state %+v, %v", s, err)
		}
		a, err := netlink.ParseAddr("127.0.0.1/8")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.AddrDel(lo, a))
		told.want(t, good, naked)
	})
}

func TestWatchReportsCarrier(t *testing.T) {
	hosttest.InNamespace(t, func(t *testing.T) {
		_, b := hosttest.Cable(t, "port0", "10.1.2.3/24")
		c, err := Resolve("10.1.2.3")
		hosttest.Must(t, err)
		told := make(recorder, 10)
		w, err := Watch(c, told.notify)
		hosttest.Must(t, err)
		defer w.Close()
		hosttest.Must(t, netlink.LinkSetDown(b)) // like an unplugged cable
		told.want(t, good, down)
		hosttest.Must(t, netlink.LinkSetUp(b))
		told.want(t, down, good)
	})
}

// A watcher that misses messages queries the state.
func TestWatchRecoversFromLostMessages(t *testing.T) {
	hosttest.InNamespace(t, func(t *testing.T) {
		l, _ := hosttest.Cable(t, "port0", "10.1.2.3/24")
		c, err := Resolve("port0")
		hosttest.Must(t, err)
		told, hold := make(recorder, 1000), make(chan struct{})
		w, err := Watch(c, func(old, now PortState) {
			<-hold // meanwhile the kernel's buffer for this socket overflows
			told.notify(old, now)
		})
		hosttest.Must(t, err)
		defer w.Close()
		hosttest.Must(t, unix.SetsockoptInt(w.messages.GetFd(), unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
		for range 200 {
			hosttest.Must(t, netlink.LinkSetDown(l))
			hosttest.Must(t, netlink.LinkSetUp(l))
		}
		a, err := netlink.ParseAddr("10.1.2.3/24")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.AddrDel(l, a))
		close(hold)
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			s, ok := w.State()
			if ok && s == naked {
				break
			}
			if time.Now().After(end) {
				t.Errorf("state %+v, expected %+v", s, naked)
				break
			}
		}
		if n := len(told); n >= 400 {
			t.Errorf("%d changes reported: no messages were lost", n)
		}
	})
}

func TestWatchReleasesResources(t *testing.T) {
	c, err := DefaultDevice()
	if err != nil {
		t.Skipf("SKIPPED: no interface is up here: %v", err)
	}
	open := func() {
		w, err := Watch(c, func(_, _ PortState) {})
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		if _, ok := w.State(); ok {
			t.Error("a closed watcher reports a state")
		}
	}
	open()
	descriptors := func() int { list, _ := os.ReadDir("/proc/self/fd"); return len(list) }
	before, goroutines := descriptors(), runtime.NumGoroutine()
	for range 50 {
		open()
	}
	if n := descriptors(); n > before {
		t.Errorf("%d descriptors, expected %d", n, before)
	}
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, expected %d", runtime.NumGoroutine(), goroutines)
		}
	}
}

func TestInterfacesWithoutNetlink(t *testing.T) {
	want, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	hosttest.OnThread(t, func() {
		hosttest.ForbidNetlink(t)
		got, err := Interfaces()
		hosttest.Must(t, err)
		for _, i := range want {
			if len(i.Addrs) == 0 {
				continue
			}
			k := slices.IndexFunc(got, func(g Interface) bool { return g.Name == i.Name })
			if k < 0 {
				t.Errorf("%s is missing", i.Name)
				continue
			}
			sort := func(a []netip.Addr) []netip.Addr { return slices.SortedFunc(slices.Values(a), netip.Addr.Compare) }
			g := got[k]
			g.Addrs, i.Addrs = sort(g.Addrs), sort(i.Addrs)
			if !reflect.DeepEqual(g, i) {
				t.Errorf("found %+v, expected %+v", g, i)
			}
		}
		c, err := Resolve("127.0.0.1")
		hosttest.Must(t, err)
		if w, err := Watch(c, nil); !errors.Is(err, unix.EAFNOSUPPORT) {
			t.Errorf("watched without netlink: %v %v", w, err)
		}
		if s, err := State(c); err != nil || s != good {
			t.Errorf("state %+v, %v", s, err)
		}
	})
}
