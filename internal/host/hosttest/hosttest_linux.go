package hosttest

import (
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// InNamespace runs test in a new network namespace. If that is not permitted it skips
// the test, or fails it if it runs as root in CI.
func InNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	OnThread(t, func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			if os.Getenv("CI") == "true" && os.Getuid() == 0 {
				t.Errorf("network namespace: %v", err)
				return
			}
			t.Skipf("SKIPPED: network namespaces are not permitted here: %v", err)
		}
		// Without IPv6 the kernel adds no addresses by itself. The tests tolerate
		// IPv6 if /proc is read-only.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
		test(t)
	})
}

// OnThread runs f on a thread that ends afterwards, because it is never unlocked. It
// never uses the process's first thread, which cannot end. f does not run on the test's
// goroutine: see Must.
func OnThread(t *testing.T, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			OnThread(t, f)
			return
		}
		f()
	}()
	<-ended
}

// Must fails the test and ends the goroutine if err is not nil.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		runtime.Goexit() // not Fatal: this is not the test's first goroutine
	}
}

// Cable creates an interface with an address, and another one at its other end. Both are
// up.
func Cable(t *testing.T, name, addr string) (l, other netlink.Link) {
	t.Helper()
	Must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "b"}))
	l, err := netlink.LinkByName(name)
	Must(t, err)
	other, err = netlink.LinkByName(name + "b")
	Must(t, err)
	a, err := netlink.ParseAddr(addr)
	Must(t, err)
	Must(t, netlink.AddrAdd(l, a))
	Must(t, netlink.LinkSetUp(l))
	Must(t, netlink.LinkSetUp(other))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		now, err := netlink.LinkByName(name)
		Must(t, err)
		if now.Attrs().OperState == netlink.OperUp {
			return l, other
		}
		if time.Now().After(end) {
			Must(t, errors.New("the interface does not come up"))
		}
	}
}

// ForbidNetlink makes netlink sockets fail on this thread, as in a sandbox.
func ForbidNetlink(t *testing.T) {
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
	if _, err := net.Interfaces(); err == nil {
		Must(t, errors.New("netlink still works"))
	}
}
