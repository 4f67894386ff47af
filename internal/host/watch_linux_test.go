package host

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inNamespace runs test in a network namespace of its own, on a thread that
// ends with it.
func inNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	onThread(t, func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			if os.Getenv("CI") == "true" && os.Getuid() == 0 {
				t.Errorf("network namespace: %v", err)
				return
			}
			t.Skipf("SKIPPED: network namespaces are not permitted here: %v", err)
		}
		test(t)
	})
}

// onThread runs f on a thread that nobody uses after it: it is never unlocked.
// The process's first thread, which cannot end, stays as it is.
func onThread(t *testing.T, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThread(t, f)
			return
		}
		f()
	}()
	<-ended
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		runtime.Goexit() // not Fatal: this is not the test's first goroutine
	}
}

// cable makes an interface with an address, up, and one at its other end.
func cable(t *testing.T, name, addr string) (l, other netlink.Link) {
	t.Helper()
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "b"}))
	l, err := netlink.LinkByName(name)
	must(t, err)
	other, err = netlink.LinkByName(name + "b")
	must(t, err)
	a, err := netlink.ParseAddr(addr)
	must(t, err)
	must(t, netlink.AddrAdd(l, a))
	must(t, netlink.LinkSetUp(l))
	must(t, netlink.LinkSetUp(other))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		now, err := netlink.LinkByName(name)
		must(t, err)
		if running(now.Attrs()) {
			return l, other
		}
		if time.Now().After(end) {
			must(t, errors.New("the interface does not come up"))
		}
	}
}

// A seer keeps what a watcher tells.
type seer chan [2]PortState

func (c seer) notify(old, now PortState) { c <- [2]PortState{old, now} }

// want waits for one change and checks it.
func (c seer) want(t *testing.T, old, now PortState) {
	t.Helper()
	select {
	case got := <-c:
		if got != [2]PortState{old, now} {
			t.Errorf("told %+v, expected %+v to %+v", got, old, now)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("told nothing, expected %+v to %+v", old, now)
		runtime.Goexit()
	}
}

var (
	good  = PortState{Up: true, Addr: true}
	down  = PortState{Addr: true}
	naked = PortState{Up: true}
)

func TestWatchTellsLinkAndAddress(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		l, _ := cable(t, "port0", "10.1.2.3/24")
		c, err := Resolve("port0")
		must(t, err)
		told := make(seer, 10)
		w, err := Watch(c, told.notify)
		must(t, err)
		if s, ok := w.State(); !ok || s != good {
			t.Errorf("state %+v", s)
		}
		must(t, netlink.LinkSetDown(l))
		told.want(t, good, down)
		must(t, netlink.LinkSetUp(l))
		told.want(t, down, good)
		a, err := netlink.ParseAddr("10.1.2.3/24")
		must(t, err)
		must(t, netlink.AddrDel(l, a))
		told.want(t, good, naked)
		if s, _ := w.State(); s != naked {
			t.Errorf("state %+v", s)
		}
		must(t, netlink.AddrAdd(l, a))
		told.want(t, naked, good)

		// What is not of this port is not told: another interface, another
		// address, another prefix of the same address.
		other, _ := cable(t, "port1", "10.9.9.9/24")
		must(t, netlink.LinkSetDown(other))
		more, err := netlink.ParseAddr("10.1.2.4/24")
		must(t, err)
		must(t, netlink.AddrAdd(l, more))
		must(t, netlink.AddrDel(l, more))
		twice, err := netlink.ParseAddr("10.1.2.3/16")
		must(t, err)
		must(t, netlink.AddrAdd(l, twice))
		must(t, netlink.AddrDel(l, a))
		must(t, netlink.LinkSetMTU(l, 1400))

		// An adapter that is unplugged and comes back has another index.
		must(t, netlink.LinkDel(l))
		for s := good; s != (PortState{}); { // addresses may go before the link
			change := <-told
			if change[0] != s || change[1].Up && change[1].Addr {
				t.Errorf("told %+v", change)
			}
			s = change[1]
		}
		cable(t, "port0", "10.1.2.3/24")
		for s := (PortState{}); s != good; {
			change := <-told
			s = change[1]
		}
		w.Close()
		w.Close()
		must(t, netlink.LinkDel(other))
		if n := len(told); n != 0 {
			t.Errorf("%d changes told after the last", n)
		}
	})
}

func TestWatchOfLoopbackKnowsWholePrefix(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		must(t, err)
		must(t, netlink.LinkSetUp(lo))
		c, err := Resolve("127.7.8.9")
		must(t, err)
		told := make(seer, 10)
		w, err := Watch(c, told.notify)
		must(t, err)
		defer w.Close()
		if s, ok := w.State(); !ok || s != good {
			t.Errorf("state %+v, %v", s, ok)
		}
		if s, err := State(c); err != nil || s != good {
			t.Errorf("asked: state %+v, %v", s, err)
		}
		a, err := netlink.ParseAddr("127.0.0.1/8")
		must(t, err)
		must(t, netlink.AddrDel(lo, a))
		told.want(t, good, naked)
	})
}

func TestWatchOfCarrier(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		_, b := cable(t, "port0", "10.1.2.3/24")
		c, err := Resolve("10.1.2.3")
		must(t, err)
		told := make(seer, 10)
		w, err := Watch(c, told.notify)
		must(t, err)
		defer w.Close()
		must(t, netlink.LinkSetDown(b)) // the other end: the cable is pulled
		told.want(t, good, down)
		must(t, netlink.LinkSetUp(b))
		told.want(t, down, good)
	})
}

// A watcher that misses news asks.
func TestWatchSurvivesLostNews(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		l, _ := cable(t, "port0", "10.1.2.3/24")
		c, err := Resolve("port0")
		must(t, err)
		told, hold := make(seer, 1000), make(chan struct{})
		w, err := Watch(c, func(old, now PortState) {
			<-hold // meanwhile the kernel's buffer for this socket overflows
			told.notify(old, now)
		})
		must(t, err)
		defer w.Close()
		must(t, unix.SetsockoptInt(w.news.GetFd(), unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
		for range 200 {
			must(t, netlink.LinkSetDown(l))
			must(t, netlink.LinkSetUp(l))
		}
		a, err := netlink.ParseAddr("10.1.2.3/24")
		must(t, err)
		must(t, netlink.AddrDel(l, a))
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
			t.Errorf("%d changes told: none were lost", n)
		}
	})
}

func TestWatchLeavesNothing(t *testing.T) {
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
			t.Error("a closed watcher tells a state")
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
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, expected %d", n, goroutines)
	}
}

// forbidNetlink makes netlink sockets fail on this thread, as a sandbox does.
func forbidNetlink(t *testing.T) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // its first argument
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_NETLINK, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err != nil {
		t.Skipf("SKIPPED: the kernel has no seccomp filters: %v", err)
	}
}

func TestInterfacesWithoutNetlink(t *testing.T) {
	want, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	onThread(t, func() {
		forbidNetlink(t)
		if _, err := net.Interfaces(); err == nil {
			t.Error("the sandbox has a hole")
		}
		got, err := Interfaces()
		must(t, err)
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
		must(t, err)
		if w, err := Watch(c, nil); !errors.Is(err, unix.EAFNOSUPPORT) {
			t.Errorf("watched without netlink: %v %v", w, err)
		}
		if s, err := State(c); err != nil || s != good {
			t.Errorf("state %+v, %v", s, err)
		}
	})
}
