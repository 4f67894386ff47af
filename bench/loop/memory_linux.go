package loop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// tripsPerSample is the number of round trips over a cache line that are timed
	// together, because reading the clock takes as long as one of them.
	tripsPerSample = 64

	// pollsPerYield is the number of polls between two yields of the processor, which
	// the other process may need.
	pollsPerYield = 1 << 14

	// echoMemory is the descriptor under which the second process gets the memory.
	echoMemory = 3
)

func CheckFutex() error { return nil }

// words are the shared memory of both processes: a word of each direction in a cache
// line of its own, and one that tells the second process to end.
type words struct {
	there atomic.Uint32
	_     [124]byte // the processor fetches cache lines in pairs
	back  atomic.Uint32
	_     [124]byte
	end   atomic.Bool
}

// mapWords maps the shared memory of a descriptor.
func mapWords(fd int) (*words, error) {
	mem, err := unix.MmapPtr(fd, 0, nil, unsafe.Sizeof(words{}), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*words)(mem), nil
}

func (w *words) unmap() {
	unix.MunmapPtr(unsafe.Pointer(w), unsafe.Sizeof(words{}))
}

// pingPong starts the second process and measures round trips to it.
func pingPong(ctx context.Context, path string, c *MemoryConfig) (r Result, err error) {
	fd, err := unix.MemfdCreate("softrdma-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return r, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "shared memory")
	defer file.Close()
	if err := file.Truncate(int64(unsafe.Sizeof(words{}))); err != nil {
		return r, err
	}
	w, err := mapWords(fd)
	if err != nil {
		return r, err
	}
	defer w.unmap()
	second := *c
	second.Echo = true
	argv, err := second.Args(path)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	runtime.LockOSThread() // Pdeathsig is about the thread that starts the process
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	var ended atomic.Bool
	exited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		ended.Store(true)
		exited <- err
	}()
	r = w.ask(c, ended.Load)
	w.end.Store(true)
	futexPost(&w.there, w.there.Load()+1)
	if err := <-exited; err != nil {
		return r, fmt.Errorf("second process: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return r, nil
}

// echo is the second process: it answers until the first one tells it to end.
func echo(c *MemoryConfig) error {
	w, err := mapWords(echoMemory)
	if err != nil {
		return err
	}
	defer w.unmap()
	l := newLoop(c.Op)
	for n := uint32(1); ; n++ {
		for !l.await(&w.there, n) {
		}
		if w.end.Load() {
			return nil
		}
		l.post(&w.back, n)
	}
}

// A loop is how a process waits for the other one, and tells it.
type loop struct {
	await func(word *atomic.Uint32, n uint32) bool // false if the word has another value for long
	post  func(word *atomic.Uint32, n uint32)
	batch int // round trips that are timed together
}

func newLoop(op string) loop {
	if op == OpFutex {
		return loop{futexAwait, futexPost, 1}
	}
	return loop{poll, (*atomic.Uint32).Store, tripsPerSample}
}

// ask measures round trips until the time is over or the second process has ended.
func (w *words) ask(c *MemoryConfig, ended func() bool) Result {
	l := newLoop(c.Op)
	n := uint32(0)
	exchange := func(trips int) {
		for range trips {
			n++
			l.post(&w.there, n)
			for !l.await(&w.back, n) && !ended() {
			}
		}
	}
	exchange(l.batch) // takes as long as the second process takes to start
	var trips []time.Duration
	start := time.Now()
	for last := start; last.Sub(start) < seconds(c.Seconds) && len(trips) < maxSamples && !ended(); {
		exchange(l.batch)
		now := time.Now()
		trips = append(trips, now.Sub(last)/time.Duration(l.batch))
		last = now
	}
	return latencyOf(trips)
}

// poll polls until the word has the value, and yields the processor and gives up after
// many polls.
func poll(word *atomic.Uint32, n uint32) bool {
	for range pollsPerYield {
		if word.Load() == n {
			return true
		}
	}
	syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	return false
}

// Operations of futex(2). Without FUTEX_PRIVATE_FLAG they work between processes.
const (
	futexWait = 0
	futexWake = 1
)

// futexLimit is the time after which a wait gives up.
const futexLimit = 100 * time.Millisecond

// futexAwait sleeps until the word has the value.
func futexAwait(word *atomic.Uint32, n uint32) bool {
	limit := unix.NsecToTimespec(int64(futexLimit))
	for {
		found := word.Load()
		if found == n {
			return true
		}
		// The raw call is what a C program makes. It sleeps without telling Go's
		// scheduler, which has nothing else to run here.
		_, _, no := syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(found), uintptr(unsafe.Pointer(&limit)), 0, 0)
		if no == unix.ETIMEDOUT {
			return false
		}
	}
}

// futexPost stores the value and wakes the other process.
func futexPost(word *atomic.Uint32, n uint32) {
	word.Store(n)
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0)
}
