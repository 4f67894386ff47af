package samehost

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/testenv"
)

// sharedDirectory returns a directory that every user can reach and publish in.
func sharedDirectory(t *testing.T) string {
	t.Helper()
	dir := testenv.SocketDir(t)
	host := filepath.Join(dir, "host")
	if err := os.Mkdir(host, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(host, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return host
}

// asUser returns the attributes of a process of another user.
func asUser(t *testing.T, uid uint32) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can start processes of other users")
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// apart returns the attributes of a process in its own namespaces.
func apart(t *testing.T, flags uintptr) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can start processes in other namespaces")
	}
	a := &syscall.SysProcAttr{Cloneflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	}
	return a
}

func TestProcessesConnect(t *testing.T) {
	dir := sharedDirectory(t)
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791")})
	a := startAgent(t, nil)
	a.expect("ok", "open %s 127.0.0.2:4791 auto", dir)
	a.expect("ok", "reach 127.0.0.1:4791 20000")
	c := only(t, d)
	a.expect("ok", "send hello")
	if err := receive(c, 0, 0, []byte("hello")); err != nil {
		t.Error(err)
	}
	if err := send(c, 0, 0, []byte("answer")); err != nil {
		t.Error(err)
	}
	a.expect("ok", "receive answer")

	id, err := strconv.Atoi(a.ask("offer segment"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the segment is mapped", func() bool { return a.ask("offered") == "true" })
	if got := string(c.Far.Segment(uint32(id))[:7]); got != "segment" {
		t.Errorf("the segment begins with %q", got)
	}
}

func TestKilledPeerLeavesNothing(t *testing.T) {
	dir := sharedDirectory(t)
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791")})
	before := holding(t)
	for i := range 6 {
		a := startAgent(t, nil)
		a.expect("ok", "open %s 127.0.0.2:4791 auto", dir)
		if i%2 == 0 {
			a.expect("ok", "reach 127.0.0.1:4791 20000")
		} else if err := d.Reach(addr("127.0.0.2:4791"), 0, timeLimit); err != nil {
			t.Fatal(err)
		}
		c := only(t, d)
		a.ask("offer segment")
		if err := a.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := d.until(func(_, detached int) bool { return detached == i+1 }); err != nil {
			t.Fatal(err)
		}
		if w := d.Why(c.Peer, 0); w.Reason != reason.HostClosed {
			t.Errorf("the channel has ended by %v", w)
		}
		eventually(t, "the name of the killed process is removed", func() bool {
			list, err := os.ReadDir(dir)
			return err == nil && len(list) == 1
		})
		wantReason(t, d.Reach(c.Peer, 0, timeLimit), reason.HostUnpublished)
		for range a.lines {
			t.Error("more answers")
		}
		_ = a.cmd.Wait()
		_ = a.in.Close()
		unchanged(t, before)
	}
}

// stop stops the process, and waits until all its threads are stopped.
func (a *agent) stop() {
	a.t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		a.t.Fatal(err)
	}
	eventually(a.t, "the process stops", func() bool {
		for _, status := range statuses(a.t, a.cmd.Process.Pid) {
			if !strings.Contains(status, "\nState:\tT") {
				return false
			}
		}
		return true
	})
}

// No call waits for a stopped process longer than its limit.
func TestStoppedPeerIsGivenUp(t *testing.T) {
	dir := sharedDirectory(t)
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791")})
	stopped, other := startAgent(t, nil), startAgent(t, nil)
	stopped.expect("ok", "open %s 127.0.0.2:4791 auto", dir)
	other.expect("ok", "open %s 127.0.0.3:4791 auto", dir)
	stopped.stop()
	wantReason(t, d.Reach(addr("127.0.0.2:4791"), 0, 200*time.Millisecond), reason.HostTimeout)
	start := time.Now()
	wantReason(t, d.Reach(addr("127.0.0.2:4791"), 0, timeLimit), reason.HostTimeout)
	if waited := time.Since(start); waited > timeLimit/2 {
		t.Errorf("asked a silent peer again and waited %v", waited)
	}
	if err := d.Reach(addr("127.0.0.3:4791"), 0, timeLimit); err != nil {
		t.Error(err)
	}
	only(t, d)
	if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the peer is reached once it runs again", func() bool { return d.Reach(addr("127.0.0.2:4791"), 0, timeLimit) == nil })

	// A peer that is stopped later keeps its channel, and messages to it are queued.
	c := d.latest()
	stopped.stop()
	g := newSegment(t, 4096)
	for range 1000 {
		c.Far.Offer(g)
		c.Far.Ring(0)
		c.Far.Withdraw(g.ID)
	}
	if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.Far.Offer(g)
	eventually(t, "the segment is mapped", func() bool { return c.Far.Offered(g.ID) })
}

func TestOtherUserIsRefused(t *testing.T) {
	dir := sharedDirectory(t)
	a := startAgent(t, asUser(t, 12345))
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791")})
	a.expect("ok", "bind 127.0.0.2:4791")
	a.expect("ok", "open %s 127.0.0.2:4791 auto", dir)
	wantReason(t, d.Reach(addr("127.0.0.2:4791"), 0, timeLimit), reason.HostUser) // root may open every socket
	a.expect("HOST_USER", "reach 127.0.0.1:4791 20000")

	// Allowing a user on one end does not make the other end allow it.
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.3:4791"), Allow: []string{"12345"}})
	wantReason(t, b.Reach(addr("127.0.0.2:4791"), 0, timeLimit), reason.HostUser)
	a.expect("HOST_USER", "reach 127.0.0.3:4791 20000")
	if attached, _ := b.seen(); attached != 0 {
		t.Error("attached")
	}
}

func TestAllowedUserGetsOnlyRings(t *testing.T) {
	dir := sharedDirectory(t)
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Allow: []string{"12345"}})
	a := startAgent(t, asUser(t, 12345))
	have(t, "127.0.0.1:4791")
	a.expect("ok", "bind 127.0.0.2:4791")
	a.expect("ok", "open %s 127.0.0.2:4791 auto 0", dir)
	a.expect("ok", "reach 127.0.0.1:4791 20000")
	c := only(t, d)
	a.expect("ok", "send hello")
	if err := receive(c, 0, 0, []byte("hello")); err != nil {
		t.Error(err)
	}
	g := newSegment(t, 4096)
	c.Far.Offer(g)
	a.ask("offer segment")
	a.expect("ok", "send later")
	if err := receive(c, 0, 0, []byte("later")); err != nil {
		t.Error(err)
	}
	a.expect("false", "offered")
	if c.Far.Offered(g.ID) {
		t.Error("a segment is offered to another user")
	}
	c.Far.Ring(0)

	// The other user cannot take the name of a device of this user either.
	other := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.4:4791"), Allow: []string{"12345"}})
	s := connectTo(t, other)
	defer s.Close()
	list, err := filepath.Glob(filepath.Join(dir, "rocev2_127.0.0.2_*"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	var m message
	if _, err := s.expect(&m, welcome); err != nil {
		t.Fatal(err)
	}
	f := newFiles(t, 1, 1)
	err = s.send(&message{
		kind: hello, stack: 9, lanes: 1, device: "RoCE v2", from: addr("127.0.0.2:4791"), to: other.cfg.Local, name: filepath.Base(list[0]),
	}, f.area, f.bell)
	if err != nil {
		t.Fatal(err)
	}
	wantReason(t, ending(t, s), reason.HostUser)
}

const everyNamespace = unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWUTS

// Two containers share only the directory.
func TestNamespacesThatShareTheDirectory(t *testing.T) {
	dir := sharedDirectory(t)
	a, b := startAgent(t, apart(t, everyNamespace)), startAgent(t, apart(t, everyNamespace))
	for i, x := range []*agent{a, b} {
		x.expect("ok", "confine %s", dir)
		x.expect("ok", "open /shared 10.9.0.%d:4791 auto", i+1)
	}
	a.expect("ok", "reach 10.9.0.2:4791 20000")
	b.expect("ok", "wait 1 0")
	a.expect("ok", "send hello")
	b.expect("ok", "receive hello")
	b.expect("ok", "send answer")
	a.expect("ok", "receive answer")
	a.ask("offer segment")
	eventually(t, "the segment is mapped", func() bool { return a.ask("offered") == "true" })
	a.expect("HOST_UNPUBLISHED", "reach 10.9.0.3:4791 20000")

	// A container can be reached from the host as well.
	d := openDevice(t, Config{Dir: dir, Local: addr("10.9.0.9:4791")})
	if err := d.Reach(addr("10.9.0.1:4791"), 0, timeLimit); err != nil {
		t.Error(err)
	}
}

// Addresses have a meaning only within one network namespace.
func TestAddressesOfOtherNamespaces(t *testing.T) {
	dir := sharedDirectory(t)
	a, b := startAgent(t, apart(t, unix.CLONE_NEWNET)), startAgent(t, apart(t, unix.CLONE_NEWNET))
	d := openDevice(t, Config{Dir: dir, Local: addr("10.9.0.9:4791")})
	a.expect("ok", "open %s 127.0.0.5:4791 auto", dir)
	wantReason(t, d.Reach(addr("127.0.0.5:4791"), 0, timeLimit), reason.HostNamespace)
	a.expect("ok", "close")

	a.expect("ok", "open %s [fe80::5%%eth0]:4791 auto", dir)
	e := openDevice(t, Config{Dir: dir, Local: addr("[fe80::6%eth0]:4791")})
	wantReason(t, e.Reach(addr("[fe80::5]:4791"), 0, timeLimit), reason.HostNamespace)
	a.expect("HOST_NAMESPACE", "reach [fe80::6]:4791 20000")
	a.expect("ok", "close")

	// The dialer's address may belong to a different device in the peer's namespace.
	l := openDevice(t, Config{Dir: dir, Local: addr("10.9.0.8:4791")})
	a.expect("ok", "open %s 127.0.0.1:4791 auto", dir)
	a.expect("HOST_NAMESPACE", "reach 10.9.0.8:4791 20000")
	if attached, _ := l.seen(); attached != 0 {
		t.Error("attached")
	}
	a.expect("ok", "close")

	// Two networks may have the same addresses.
	for _, x := range []*agent{a, b} {
		x.expect("ok", "open %s 10.9.0.1:4791 auto", dir)
	}
	wantReason(t, d.Reach(addr("10.9.0.1:4791"), 0, timeLimit), reason.HostAmbiguous)
	a.expect("HOST_AMBIGUOUS", "reach 10.9.0.9:4791 20000") // answers would not come back either

	// The device's own namespace is preferred.
	own := openDevice(t, Config{Dir: dir, Local: addr("10.9.0.1:4791"), Stack: 1})
	if err := d.Reach(addr("10.9.0.1:4791"), 0, timeLimit); err != nil {
		t.Error(err)
	}
	only(t, own)
	own.close()
	if err := d.until(func(attached, detached int) bool { return attached == detached }); err != nil {
		t.Fatal(err)
	}
	b.expect("ok", "close")
	if err := d.Reach(addr("10.9.0.1:4791"), 0, timeLimit); err != nil {
		t.Error(err)
	}
}

// A device whose peers are idle uses no processor time.
func TestIdleDeviceSleeps(t *testing.T) {
	dir := sharedDirectory(t)
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791")})
	a := startAgent(t, nil)
	a.expect("ok", "open %s 127.0.0.2:4791 auto", dir)
	if err := d.Reach(addr("127.0.0.2:4791"), 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	last := -1
	for end := time.Now().Add(timeLimit); time.Now().Before(end); time.Sleep(time.Second) {
		n := wakeUps(t, a.cmd.Process.Pid)
		if n == last {
			return
		}
		last = n
	}
	t.Error("an idle process wakes up every second")
}

// wakeUps counts how often the threads of a process have been woken.
func wakeUps(t *testing.T, pid int) (sum int) {
	t.Helper()
	for _, status := range statuses(t, pid) {
		_, after, _ := strings.Cut(status, "\nvoluntary_ctxt_switches:")
		n, err := strconv.Atoi(strings.Fields(after)[0])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// statuses returns the status file of each thread of a process.
func statuses(t *testing.T, pid int) (list []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(b))
	}
	return list
}

// A process that is about to end leaves no name, not even of a device that it opens meanwhile.
func TestEndingProcessPublishesNothing(t *testing.T) {
	dir := sharedDirectory(t)
	a := startAgent(t, nil)
	a.expect("ok", "open %s 127.0.0.1:4791 auto", dir)
	a.expect("ok", "end")
	if names := namesIn(t, dir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	a.expect("DEVICE_CLOSED", "open %s 127.0.0.2:4791 auto", dir)
	if names := namesIn(t, dir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
