package compare

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"softrdma/bench/relay"
	"softrdma/internal/testenv/twohosts"
)

// NewRelay creates two network namespaces that are connected only by a relay in this
// process. It requires root.
func NewRelay() (*Relay, error) {
	r := &Relay{Path: &Path{
		Name: "relay", MTU: relayMTU, Device: [2]string{"tap0", "tap1"},
		Client: netip.MustParseAddr("10.12.1.1"), Server: netip.MustParseAddr("10.12.1.2"),
	}}
	if err := r.open(); err != nil {
		r.Close()
		return nil, fmt.Errorf("create two network namespaces with a relay (requires root): %w", err)
	}
	return r, nil
}

// Real-time priorities of the programs at both ends and of the relay. The relay has the
// higher one, because a real network does not wait for its hosts' processors.
const (
	endPriority   = 1
	relayPriority = 2
)

// taps are the relay's two sides.
type taps [2]*tap

func (r *Relay) open() error {
	ends, err := twohosts.New()
	r.Path.Inside, r.Path.close = ends.Inside, ends.Close
	if err != nil {
		return err
	}
	for end := range r.Path.Inside {
		// Other processes on this machine must not influence the goodput. The
		// kernel's TCP would be less affected by them than programs.
		r.Path.Inside[end] = append(r.Path.Inside[end], "chrt", "--rr", fmt.Sprint(endPriority))
	}
	for i, h := range ends.Ends {
		err := h.Enter(func() (err error) {
			if r.taps[i], err = openTap(h, r.Path.Device[i]); err != nil {
				return err
			}
			// Enable ECN for TCP, as for softrdma. It is off by default.
			return os.WriteFile("/proc/sys/net/ipv4/tcp_ecn", []byte("1"), 0)
		})
		if err != nil {
			return err
		}
	}
	addrs := [2]netip.Addr{r.Path.Client, r.Path.Server}
	for i, t := range r.taps {
		other, err := r.taps[1-i].link()
		if err != nil {
			return err
		}
		if err := t.configure(r.Path.MTU, addrs[i], addrs[1-i], other.Attrs().HardwareAddr); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the relay and its namespaces.
func (r *Relay) Close() {
	for _, t := range r.taps {
		if t != nil {
			unix.Close(t.fd)
		}
	}
	r.Path.Close()
}

// Start relays frames until Stop, with the same configuration in both directions.
func (r *Relay) Start(c relay.Config) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, t := range r.taps {
		if _, err := t.dropped(); err != nil { // start counting drops
			unix.Close(wake)
			return err
		}
	}
	back := c
	back.Seed = ^c.Seed
	r.run = &relayRun{
		ways: [2]*relay.Path{relay.NewPath(c), relay.NewPath(back)}, start: time.Now(),
		late: hdrhistogram.New(1, int64(10*time.Second), 2), done: make(chan struct{}),
	}
	for i, fd := range [...]int{r.taps[client].fd, r.taps[server].fd, wake} {
		r.run.polled[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	go r.run.loop()
	return nil
}

// Stop stops relaying and returns the account of this run.
func (r *Relay) Stop() (Account, error) {
	run := r.run
	r.run = nil
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	wake := int(run.polled[2].Fd)
	defer unix.Close(wake)
	if _, err := unix.Write(wake, one[:]); err != nil {
		return Account{}, fmt.Errorf("eventfd: %w", err)
	}
	<-run.done
	a := Account{Forward: run.ways[client].Stats(), Back: run.ways[server].Stats(), LateP99: us(run.late.ValueAtQuantile(99)), LateMost: us(run.late.Max()), Later: run.ways[client].LaterPeak()}
	for _, t := range r.taps {
		n, err := t.dropped()
		if err != nil {
			return a, err
		}
		a.InterfaceDrops += int(n)
	}
	return a, run.err
}

func us(ns int64) float64 { return float64(ns) / 1e3 }

// A relayRun is one run of a relay: a thread that relays frames in both directions.
type relayRun struct {
	ways   [2]*relay.Path
	polled [3]unix.PollFd // both ends, and the eventfd that Stop writes to
	limit  unix.Timespec
	start  time.Time
	late   *hdrhistogram.Histogram // delay of frames beyond the configured one, in ns
	buf    [relayMTU + 64]byte
	err    error
	done   chan struct{}
}

// burst is the number of frames that are read before frames are written.
const burst = 32

func (r *relayRun) loop() {
	defer close(r.done)
	runtime.LockOSThread() // the thread gets a priority and ends with the goroutine
	err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: relayPriority}, 0)
	if err != nil {
		r.err = fmt.Errorf("priority of the relay: %w", err)
		return
	}
	for r.err == nil {
		busy := false
		for i := range r.ways {
			busy = r.read(i) || busy
			busy = r.write(i) || busy
		}
		if !busy && r.sleep() {
			return
		}
	}
}

// read reads frames from one end, and reports whether there were any.
func (r *relayRun) read(end int) (some bool) {
	for range burst {
		n, no := r.call(unix.SYS_READ, int(r.polled[end].Fd), r.buf[:])
		switch no {
		case 0:
			some = true
			r.ways[end].Enter(time.Since(r.start), r.buf[:n])
			continue
		case unix.EAGAIN, unix.EINTR:
		default:
			r.err = errors.Join(r.err, fmt.Errorf("read a frame: %w", no))
		}
		break
	}
	return some
}

// write writes the due frames of one end to the other, and reports whether there were
// any.
func (r *relayRun) write(end int) (some bool) {
	for range burst {
		now := time.Since(r.start)
		f, at := r.ways[end].Leave(now)
		if f == nil {
			return some
		}
		some = true
		r.late.RecordValue(int64(now - at))
		if _, no := r.call(unix.SYS_WRITE, int(r.polled[1-end].Fd), f); no != 0 {
			r.err = errors.Join(r.err, fmt.Errorf("write a frame: %w", no))
		}
	}
	return some
}

// call makes a system call that does not block.
func (r *relayRun) call(trap uintptr, fd int, b []byte) (int, syscall.Errno) {
	n, _, no := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	runtime.KeepAlive(b)
	return int(n), no
}

// maxSleep is the maximum duration of one sleep. The sleep is a raw system call: a
// return through Go's scheduler could wait for locks of threads without priority.
const maxSleep = 5 * time.Millisecond

// sleep waits for a frame or the next deadline, and reports whether Stop was called.
func (r *relayRun) sleep() (stop bool) {
	next := time.Duration(math.MaxInt64)
	for _, w := range r.ways {
		if at, ok := w.Next(); ok {
			next = min(next, at)
		}
	}
	r.limit = unix.NsecToTimespec(min(max(next-time.Since(r.start), 0), maxSleep).Nanoseconds())
	_, _, no := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&r.polled)), uintptr(len(r.polled)), uintptr(unsafe.Pointer(&r.limit)), 0, 0, 0)
	if no != 0 && no != unix.EINTR {
		r.err = fmt.Errorf("ppoll: %w", no)
	}
	return no == 0 && r.polled[2].Revents != 0
}
