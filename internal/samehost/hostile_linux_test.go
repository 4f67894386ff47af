package samehost

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// connectTo opens a connection to a device without a handshake.
func connectTo(t *testing.T, d *device) *socket {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: d.dir.at(d.Name()), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(timeLimit))
	return newSocket(c)
}

// ending reads until the device closes the connection, and returns its refusal.
func ending(t *testing.T, s *socket) error {
	t.Helper()
	var refusal error
	for {
		var m message
		fds, err := s.receive(&m)
		fds.Close()
		var no unix.Errno
		switch {
		case errors.Is(err, io.EOF), errors.As(err, &no) && no == unix.ECONNRESET && refusal != nil:
			return refusal
		case errors.As(err, &no) && no == unix.ECONNRESET:
			continue // skip messages that were sent before
		case err != nil:
			t.Errorf("the connection does not end: %v", err)
			return err
		case m.kind == refused:
			refusal = m.refusal()
		}
	}
}

// files are descriptors that a hostile peer may send.
type files struct {
	area, bell, unsealed, short, device, pipe int
}

func newFiles(t *testing.T, from, to int) files {
	t.Helper()
	memory := func(size int) int {
		m, err := hostmem.NewMemory(size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		if size >= hostmem.AreaSize(from, to) {
			hostmem.NewArea(m.Bytes(), from, to)
		}
		return m.FD()
	}
	f := files{area: memory(hostmem.AreaSize(from, to) + unix.Getpagesize()), short: memory(unix.Getpagesize())}
	var err [3]error
	var ends [2]int
	f.bell, err[0] = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	f.unsealed, err[1] = unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	f.device, err[2] = unix.Open("/dev/zero", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if e := errors.Join(append(err[:], unix.Pipe2(ends[:], unix.O_CLOEXEC))...); e != nil {
		t.Fatal(e)
	}
	f.pipe = ends[1]
	t.Cleanup(func() { unixmsg.Descriptors{f.bell, f.unsealed, f.device, ends[0], ends[1]}.Close() })
	return f
}

// A device that refuses a hello holds no resources afterwards, whatever the hello contained.
func TestMalformedHelloLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	peer := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	f := newFiles(t, 1, 1)
	good := message{
		kind: hello, stack: 2, lanes: 1, device: "RoCE v2", from: peer.cfg.Local, to: d.cfg.Local, name: peer.Name(),
	}
	with := func(change func(m *message)) []byte {
		m := good
		change(&m)
		return m.append(nil)
	}
	type attack struct {
		name string
		data []byte
		fds  []int
		want reason.Reason // None for any
	}
	right := []int{f.area, f.bell}
	attacks := []attack{
		{"no descriptor", with(func(*message) {}), nil, reason.HostMessage},
		{"too few descriptors", with(func(*message) {}), []int{f.area}, reason.HostMessage},
		{"too many descriptors", with(func(*message) {}), []int{f.area, f.bell, f.bell}, reason.HostMessage},
		{"very many descriptors", with(func(*message) {}), slices.Repeat([]int{f.bell}, 250), reason.HostMessage},
		{"bell as memory", with(func(*message) {}), []int{f.bell, f.bell}, reason.None},
		{"memory not sealed", with(func(*message) {}), []int{f.unsealed, f.bell}, reason.HostMemory},
		{"memory too short", with(func(*message) {}), []int{f.short, f.bell}, reason.HostMemory},
		{"device as memory", with(func(*message) {}), []int{f.device, f.bell}, reason.HostMemory},
		{"pipe as bell", with(func(*message) {}), []int{f.area, f.pipe}, reason.HostMessage},
		{"memory as bell", with(func(*message) {}), []int{f.area, f.area}, reason.HostMessage},
		{"device as bell", with(func(*message) {}), []int{f.area, f.device}, reason.HostMessage},
		{"area of other lanes", with(func(m *message) { m.lanes = 2 }), []int{f.area, f.bell, f.bell}, reason.HostMemory},
		{"other kind of frames", with(func(m *message) { m.device = "RoCE v1" }), right, reason.HostMessage},
		{"other address", with(func(m *message) { m.to = addr("127.0.0.3:4791") }), right, reason.HostMessage},
		{"name of another address", with(func(m *message) { m.name = d.Name() }), right, reason.HostMessage},
		{"name outside", with(func(m *message) { m.name = "../" + m.name }), right, reason.HostMessage},
		{"name of nobody", with(func(m *message) { n := peer.name; n.since++; m.name = n.String() }), right, reason.HostUnpublished},
		{"same stack", with(func(m *message) { m.stack = 1 }), right, reason.HostSameProcess},
		{"answer", (&message{kind: answer, lanes: 1}).append(nil), right, reason.HostMessage},
		{"ready", (&message{kind: ready}).append(nil), nil, reason.HostMessage},
		{"ready with descriptors", (&message{kind: ready}).append(nil), right, reason.HostMessage},
		{"offer", (&message{kind: offer, id: 1, size: 4096}).append(nil), []int{f.area}, reason.HostMessage},
		{"nothing", []byte{0}, right, reason.HostMessage},
		{"too long", append(with(func(*message) {}), make([]byte, maxMessage)...), right, reason.HostMessage},
	}
	whole := with(func(*message) {})
	for n := 1; n < len(whole); n += 7 {
		attacks = append(attacks, attack{"cut", whole[:n], right, reason.HostMessage})
	}
	before := holding(t)
	for _, a := range attacks {
		s := connectTo(t, d)
		var m message
		if _, err := s.expect(&m, welcome); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		var oob []byte
		if len(a.fds) > 0 {
			oob = unix.UnixRights(a.fds...)
		}
		if _, _, err := s.WriteMsgUnix(a.data, oob, nil); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		err := ending(t, s)
		if a.want != reason.None && (err == nil || detailOf(err).Reason != a.want) {
			t.Errorf("%s: refused by %v, expected %v", a.name, err, a.want)
		}
		_ = s.Close()
		unchanged(t, before)
	}

	// A handshake may also end or be malformed after the answer.
	for _, last := range [][]byte{
		nil, {1}, (&message{kind: confirm}).append(nil), (&message{kind: ready}).append(nil), (&message{kind: refused, reason: "WHATEVER"}).append(nil),
	} {
		s := connectTo(t, d)
		var m message
		_, err := s.expect(&m, welcome)
		if err == nil {
			err = s.send(&good, right...)
		}
		if err != nil {
			t.Fatal(err)
		}
		fds, err := s.expect(&m, answer)
		if err != nil || len(fds) != 2 {
			t.Fatalf("%d descriptors, %v", len(fds), err)
		}
		fds.Close()
		if last != nil {
			_, _ = s.Write(last)
			_ = ending(t, s)
		}
		_ = s.Close()
		unchanged(t, before)
	}
	if attached, _ := d.seen(); attached != 0 {
		t.Errorf("%d channels to hostile peers", attached)
	}
	if err := peer.Reach(d.cfg.Local, 0, timeLimit); err != nil {
		t.Errorf("a peer is refused afterwards: %v", err)
	}
}

// playedPeer opens a device, and publishes a peer that the test plays: it accepts the connections.
func playedPeer(t *testing.T) (d *device, n name, l *net.UnixListener) {
	t.Helper()
	d = openDevice(t, Config{Dir: t.TempDir(), Local: addr("127.0.0.1:4791"), Stack: 1})
	n = name{kind: "rocev2", local: addr("127.0.0.2:4791"), space: d.name.space, since: 1}
	l, err := d.dir.listen(n, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return d, n, l
}

// A process publishes a device and answers with malformed messages.
func TestMalformedAnswerLeavesNothing(t *testing.T) {
	d, n, l := playedPeer(t)
	f := newFiles(t, 1, 1)
	greeting := (&message{kind: welcome, stack: 2, lanes: 1}).append(nil)
	reply := func(change func(m *message)) []byte {
		m := message{kind: answer, lanes: 1, seen: nonce{1}}
		change(&m)
		return m.append(nil)
	}
	before := holding(t)
	for _, c := range []struct {
		name    string
		welcome []byte
		answer  []byte
		fds     []int
		want    reason.Reason
	}{
		{name: "hangs up", want: reason.HostRefused},
		{name: "nonsense", welcome: []byte("nonsense"), want: reason.HostMessage},
		{name: "another version", welcome: append(append([]byte(nil), greeting[:4]...), 9, 9, 1, 0), want: reason.HostVersion},
		{name: "too many lanes", welcome: (&message{kind: welcome, lanes: 255}).append(nil), want: reason.HostMessage},
		{name: "lanes beyond those of its address", welcome: (&message{kind: welcome, lanes: 2, first: 255, of: 256}).append(nil), want: reason.HostMessage},
		{name: "too many lanes of its address", welcome: (&message{kind: welcome, lanes: 2, of: 1 << 17}).append(nil), want: reason.HostMessage},
		{name: "first lane of none", welcome: (&message{kind: welcome, lanes: 1, first: 1<<32 - 1}).append(nil), want: reason.HostMessage},
		{name: "refuses", welcome: (&message{kind: refused, reason: "HOST_LIMIT"}).append(nil), want: reason.HostLimit},
		{name: "refuses by an unknown reason", welcome: (&message{kind: refused, reason: "HOST_MOOD"}).append(nil), want: reason.HostRefused},
		{name: "hangs up later", welcome: greeting, want: reason.HostRefused},
		{name: "no descriptors", welcome: greeting, answer: reply(func(*message) {}), want: reason.HostMessage},
		{name: "other lanes", welcome: greeting, answer: reply(func(m *message) { m.lanes = 2 }), fds: []int{f.area, f.bell, f.bell}, want: reason.HostMessage},
		{name: "unsealed", welcome: greeting, answer: reply(func(*message) {}), fds: []int{f.unsealed, f.bell}, want: reason.HostMemory},
		{name: "no bell", welcome: greeting, answer: reply(func(*message) {}), fds: []int{f.area, f.area}, want: reason.HostMessage},
		{name: "wrong nonce", welcome: greeting, answer: reply(func(*message) {}), fds: []int{f.area, f.bell}, want: reason.HostNonce},
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			defer conn.Close()
			s := newSocket(conn)
			if c.welcome == nil {
				return
			}
			_, _ = s.Write(c.welcome)
			var m message
			fds, err := s.receive(&m)
			fds.Close()
			if err != nil || c.answer == nil {
				return
			}
			var oob []byte
			if len(c.fds) > 0 {
				oob = unix.UnixRights(c.fds...)
			}
			_, _, _ = s.WriteMsgUnix(c.answer, oob, nil)
			_, _ = s.receive(&m)
		}()
		err := d.Reach(n.local, 0, timeLimit)
		<-done
		if err == nil || detailOf(err).Reason != c.want {
			t.Errorf("%s: %v, expected %v", c.name, err, c.want)
		}
		if attached, _ := d.seen(); attached != 0 {
			t.Fatalf("%s: attached", c.name)
		}
		unchanged(t, before)
	}
}

// A proxy forwards the socket but not the memory, like a proxy between two hosts.
func TestProxiedMemoryIsNoticed(t *testing.T) {
	dir, beyond := t.TempDir(), t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: beyond, Local: addr("127.0.0.2:4791"), Stack: 2})
	// b sees a's name in its own directory, published by the proxy.
	n := a.name
	image, err := b.dir.listen(n, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	l, err := a.dir.listen(b.name, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := newFiles(t, 1, 1)
	far := connectTo(t, b)
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			defer far.Close()
			conn, err := l.AcceptUnix()
			if err != nil {
				return err
			}
			defer conn.Close()
			near := newSocket(conn)
			var m message
			for _, way := range [][2]*socket{{far, near}, {near, far}, {far, near}} {
				fds, err := way[0].receive(&m)
				fds.Close()
				if err != nil {
					return err
				}
				var out []int
				if len(fds) > 0 {
					out = []int{f.area, f.bell}
				}
				if err := way[1].send(&m, out...); err != nil {
					return err
				}
			}
			_, _ = near.receive(&m)
			return nil
		}()
	}()
	wantReason(t, a.Reach(b.cfg.Local, 0, timeLimit), reason.HostNonce)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Silent connections are limited in number, and end.
func TestSilentDialersAreBounded(t *testing.T) {
	dir := t.TempDir()
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1, acceptTimeout: 3 * time.Second}) // all of them connect within it
	peer := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	before := holding(t)
	silent := make([]*socket, maxPending)
	for i := range silent {
		silent[i] = connectTo(t, d)
		var m message
		if _, err := silent[i].expect(&m, welcome); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	s := connectTo(t, d)
	var m message
	if _, err := s.expect(&m, welcome); err == nil || detailOf(err).Reason != reason.HostLimit {
		t.Errorf("one more is refused by %v", err)
	}
	_ = s.Close()
	for _, s := range silent {
		wantReason(t, ending(t, s), reason.HostTimeout)
		_ = s.Close()
	}
	if err := peer.Reach(d.cfg.Local, 0, timeLimit); err != nil {
		t.Errorf("a peer is refused afterwards: %v", err)
	}
	before.descriptors += 100 // the peer's
	before.goroutines += 2
	before.mappings += 4
	unchanged(t, before)
}

// A peer that refuses and hangs up before this end has sent its message is believed, as one is whose limit of
// time has expired on a busy host.
func TestRefusalBeforeTheHelloIsReported(t *testing.T) {
	d, n, l := playedPeer(t)
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		s := newSocket(conn)
		_ = s.send(&message{kind: welcome, stack: 2, lanes: 1})
		s.refuse(detailOf(timedOut(time.Second, time.Second)))
		_ = s.Close()
	}()
	bell := d.cfg.Bell
	d.cfg.Bell = func(lane int, owner any) (*hostmem.Bell, error) {
		<-hung // the hello comes later
		return bell(lane, owner)
	}
	wantReason(t, d.Reach(n.local, 0, timeLimit), reason.HostTimeout)
}

// shaken makes an established connection to a peer that the test plays.
func shaken(t *testing.T, d, as *device) *socket {
	t.Helper()
	f := newFiles(t, 1, 1)
	s := connectTo(t, d)
	t.Cleanup(func() { _ = s.Close() })
	var m message
	_, err := s.expect(&m, welcome)
	if err == nil {
		err = s.send(&message{kind: hello, stack: 99, lanes: 1, device: "RoCE v2", from: as.cfg.Local, to: d.cfg.Local, name: as.Name()}, f.area, f.bell)
	}
	if err != nil {
		t.Fatal(err)
	}
	fds, err := s.expect(&m, answer)
	if err != nil {
		t.Fatal(err)
	}
	defer fds.Close()
	area, err := hostmem.MapMemory(fds[0], hostmem.AreaSize(1, 1)+unix.Getpagesize(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer area.Close()
	var seen nonce
	copy(seen[:], area.Bytes()[hostmem.AreaSize(1, 1):])
	if err := s.send(&message{kind: confirm, seen: seen}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.expect(&m, ready); err != nil {
		t.Fatal(err)
	}
	return s
}

// A peer that violates the protocol after the handshake only loses its channel.
func TestEstablishedPeerBreaksTheRules(t *testing.T) {
	dir := t.TempDir()
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	peer := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	bystander := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.3:4791"), Stack: 3})
	if err := bystander.Reach(d.cfg.Local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	f := newFiles(t, 1, 1)
	good := func(id uint32) *message {
		return &message{kind: offer, id: id, generation: id, size: uint64(unix.Getpagesize())}
	}
	for _, c := range []struct {
		name    string
		violate func(s *socket) error
		want    reason.Reason
	}{
		{"greets again", func(s *socket) error { return s.send(&message{kind: ready}) }, reason.HostMessage},
		{"offers twice", func(s *socket) error { return errors.Join(s.send(good(1), f.area), s.send(good(1), f.area)) }, reason.HostMessage},
		{"offers without a descriptor", func(s *socket) error { return s.send(good(1)) }, reason.HostMessage},
		{"offers with two", func(s *socket) error { return s.send(good(1), f.area, f.bell) }, reason.HostMessage},
		{"answers what nobody has asked", func(s *socket) error { return s.send(&message{kind: located, key: 1, id: 1}) }, reason.HostMessage},
		{"offers too many", func(s *socket) (err error) {
			for id := range uint32(maxSegments + 1) {
				if err = s.send(good(id), f.short); err != nil {
					break
				}
				if id < maxSegments {
					var m message
					if _, err := s.receive(&m); err != nil || m.kind != mapped {
						return err
					}
				}
			}
			return nil
		}, reason.HostLimit},
		{"withdraws and offers too many", func(s *socket) (err error) {
			for range maxSegments + 1 {
				if err = errors.Join(s.send(good(7), f.short), s.send(&message{kind: withdraw, id: 7})); err != nil {
					return nil
				}
			}
			return nil
		}, reason.HostLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := holding(t)
			attachedBefore, detachedBefore := d.seen()
			s := shaken(t, d, peer)
			if err := c.violate(s); err != nil {
				t.Fatal(err)
			}
			if err := d.until(func(attached, detached int) bool { return attached == attachedBefore+1 && detached == detachedBefore+1 }); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the reason is kept", func() bool { return d.Why(peer.cfg.Local, 0).Reason == c.want })
			_ = s.Close()
			before.descriptors += 8 // of this test, until it ends
			before.mappings += 2
			unchanged(t, before)
		})
	}
	if err := transfer(only(t, bystander), only(t, d), 0, 0, []byte("works")); err != nil {
		t.Error(err)
	}
}

// A segment that cannot be mapped is answered and has no other effect.
func TestSegmentThatCannotBeMapped(t *testing.T) {
	dir := t.TempDir()
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	peer := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	f := newFiles(t, 1, 1)
	s := shaken(t, d, peer)
	for _, c := range []struct {
		fd   int
		size uint64
	}{{f.unsealed, 4096}, {f.short, 1 << 30}, {f.short, 0}, {f.short, 1<<64 - 1}, {f.pipe, 4096}, {f.device, 4096}, {f.bell, 4096}} {
		var m message
		if err := s.send(&message{kind: offer, id: 5, generation: 6, size: c.size}, c.fd); err != nil {
			t.Fatal(err)
		}
		if _, err := s.receive(&m); err != nil || m.kind != unmappable || m.id != 5 || m.generation != 6 {
			t.Errorf("answered %+v, %v", m, err)
		}
	}
	if only(t, d).Far.Segment(5) != nil {
		t.Error("the segment is mapped")
	}
}

// A peer that has too many channels loses the oldest.
func TestPeerWithManyChannels(t *testing.T) {
	dir := t.TempDir()
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	peer := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	for range maxPeerChannels + 3 {
		shaken(t, d, peer)
	}
	if err := d.until(func(attached, detached int) bool { return attached == maxPeerChannels+3 && detached == 3 }); err != nil {
		t.Error(err)
	}
}

// A peer offers memory that has no pages, of the largest size of a memfd. It gets a share of
// this process's address space, and other peers still get theirs.
func TestAttackSegmentsWithoutEnd(t *testing.T) {
	dir := t.TempDir()
	var refused atomic.Int64
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1, Refused: func(why reason.Detail) {
		if why.Reason == reason.HostLimit {
			refused.Add(1)
		}
	}})
	peer := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	honest := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.3:4791"), Stack: 3})
	s := shaken(t, d, peer)
	size := uint64(peerLimit()) / 3 &^ (1<<20 - 1)
	fd, err := unix.MemfdCreate("sparse", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(mappedLimit)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	answer := func(id uint32, size uint64, want kind) {
		t.Helper()
		var m message
		if err := s.send(&message{kind: offer, id: id, generation: 1, size: size}, fd); err != nil {
			t.Fatal(err)
		}
		if _, err := s.receive(&m); err != nil || m.kind != want {
			t.Errorf("offer of %d bytes: answered %+v, %v, expected %v", size, m, err, want)
		}
	}
	answer(1, mappedLimit, unmappable)
	for id := uint32(2); id < 20; id++ {
		want := mapped
		if id >= 5 {
			want = unmappable
		}
		answer(id, size, want)
	}
	if refused.Load() != 16 {
		t.Errorf("%d refusals, expected 16", refused.Load())
	}
	if err := honest.Reach(d.cfg.Local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	c := only(t, honest)
	g := newSegment(t, 8192)
	c.Far.Offer(g)
	eventually(t, "another peer's segment is mapped", func() bool { return c.Far.Offered(g.ID) })
	_ = s.Close()
	eventually(t, "the address space is given back", func() bool { return mappedSpace.bytes.Load() <= 8192 })
}
