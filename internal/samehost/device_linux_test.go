package samehost

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// timeLimit bounds waits in tests. It is generous because the machine may be busy.
const timeLimit = 20 * time.Second

// A device stands for the layer above a Host in tests.
type device struct {
	*Host
	bells []*hostmem.Bells

	mu       sync.Mutex
	channels []*hostmem.Channel
	attached int
	detached int
	changed  chan struct{}
	inDetach func()
}

// newDevice makes a device. Fields of cfg that are not set get values for tests.
func newDevice(cfg Config) (*device, error) {
	d := &device{changed: make(chan struct{})}
	if cfg.Kind == "" {
		cfg.Kind = "RoCE v2"
	}
	if cfg.Lanes == 0 {
		cfg.Lanes = 1
	}
	for range min(cfg.Lanes, MaxLanes) {
		b, err := hostmem.NewBells()
		if err != nil {
			return nil, err
		}
		d.bells = append(d.bells, b)
	}
	cfg.Bell = func(lane int, owner any) (*hostmem.Bell, error) { return d.bells[lane].Add(owner) }
	cfg.Attach = func(c *hostmem.Channel) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.channels = append(d.channels, c)
		d.attached++
		d.change()
	}
	cfg.Detach = func(c *hostmem.Channel) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.inDetach != nil {
			d.inDetach()
		}
		i := slices.Index(d.channels, c)
		d.channels = slices.Delete(d.channels, i, i+1) // panics if it was detached before
		d.detached++
		d.change()
	}
	h, err := Open(cfg)
	if err != nil {
		d.closeBells()
		return nil, err
	}
	d.Host = h
	return d, nil
}

func (d *device) change() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *device) closeBells() {
	for _, b := range d.bells {
		b.Close()
	}
}

func (d *device) close() {
	_ = d.Host.Close()
	d.closeBells()
}

// until waits until the numbers of attached and detached channels satisfy want.
func (d *device) until(want func(attached, detached int) bool) error {
	limit := time.After(timeLimit)
	for {
		d.mu.Lock()
		ok, changed := want(d.attached, d.detached), d.changed
		attached, detached := d.attached, d.detached
		d.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-limit:
			return fmt.Errorf("%d channels attached and %d detached", attached, detached)
		}
	}
}

// seen returns how many channels were attached, and how many of them were detached.
func (d *device) seen() (attached, detached int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attached, d.detached
}

// latest returns the most recently attached channel.
func (d *device) latest() *hostmem.Channel {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.channels) == 0 {
		return nil
	}
	return d.channels[len(d.channels)-1]
}

func openDevice(t *testing.T, cfg Config) *device {
	t.Helper()
	d, err := newDevice(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// pair makes two devices of separate stacks, and connects them.
func pair(t *testing.T, lanes [2]int) (a, b *device) {
	t.Helper()
	dir := t.TempDir()
	a = openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Lanes: lanes[0], Stack: 1})
	b = openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Lanes: lanes[1], Stack: 2})
	if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// held counts the resources of this process.
type held struct {
	descriptors, goroutines int
	mappings                int
}

func holding(t *testing.T) held {
	t.Helper()
	runtime.GC() // finalizers close files of tests
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return held{len(entries), runtime.NumGoroutine(), strings.Count(string(maps), "memfd:")}
}

// unchanged checks that this process holds no more than before.
func unchanged(t *testing.T, before held) {
	t.Helper()
	var now held
	for end := time.Now().Add(timeLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		now = holding(t)
		if now.descriptors <= before.descriptors && now.goroutines <= before.goroutines && now.mappings <= before.mappings {
			return
		}
	}
	t.Errorf("holds %+v, expected at most %+v", now, before)
}

// transfer sends bytes over the ring between two lanes of a channel and its other end.
func transfer(from, to *hostmem.Channel, a, b int, payload []byte) error {
	if err := send(from, a, b, payload); err != nil {
		return err
	}
	return receive(to, a, b, payload)
}

// send sends a message to a lane of the peer.
func send(c *hostmem.Channel, from, to int, payload []byte) error {
	if !c.Out.Sender(from, to).Copy(&hostmem.Head{}, []byte("header"), [][]byte{payload}, len(payload)) {
		return errors.New("no room")
	}
	return nil
}

// receive takes a message from a ring and compares its payload.
func receive(c *hostmem.Channel, from, to int, want []byte) error {
	r := c.In.Receiver(from, to)
	var m hostmem.Received
	for end := time.Now().Add(timeLimit); time.Now().Before(end); {
		ok, fault := r.Next(&m)
		if fault.Reason != reason.None {
			return fault.Err()
		}
		if !ok {
			time.Sleep(time.Millisecond)
			continue
		}
		if !bytes.Equal(m.Payload, want) {
			return fmt.Errorf("received %q, expected %q", m.Payload, want)
		}
		r.Release()
		return nil
	}
	return errors.New("nothing came")
}

// only waits until the device has a channel, and returns it. There must be exactly one.
func only(t *testing.T, d *device) *hostmem.Channel {
	t.Helper()
	if err := d.until(func(attached, detached int) bool { return attached-detached == 1 }); err != nil {
		t.Fatal(err)
	}
	return d.latest()
}

// newShared makes memory that can be offered to a peer.
func newShared(size int) (*memory.Segment, error) {
	m, err := hostmem.NewMemory(size)
	if err != nil {
		return nil, err
	}
	return memory.NewSegment(m.Bytes(), size, m.FD()), nil
}

// newSegment is newShared for a test, which frees the memory.
func newSegment(t *testing.T, size int) *memory.Segment {
	t.Helper()
	s, err := newShared(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Use(func(fd int) { _ = unix.Close(fd) })
		s.Close()
		_ = unix.Munmap(s.Mem)
	})
	return s
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(timeLimit); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
