//go:build linux && !softrdma_portable

package udp

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
	"softrdma/internal/link/lines"
	"softrdma/internal/memory"
)

// # Batches to a peer on this host
//
// sendmsg copies a batch into pages of the kernel that the receiver's processor has read last.
// If the two processors share no cache, each line of them has to be fetched from there, and
// the copy takes most of the sender's time. So long batches of a stream to a loopback address
// are copied to memory of the flow instead, by streaming stores, and the socket gets its pages
// by splice. stage_linux.go decides when memory of a flow may be reused.

const (
	// spliceFrom is the shortest batch that is spliced, and spliceAfter the number of bytes in
	// such batches after which a flow begins to splice. A stage needs memory, and making it
	// takes time.
	spliceFrom  = 32 << 10
	spliceAfter = 16 << 20

	// stageSlot is the memory for a batch: the pages that one splice can carry. It begins at a
	// page, so up to a page is lost with each batch.
	stageSlot = 64 << 10
	pageSize  = 4 << 10

	// maxStages is the number of stages of a link, of 10 MiB each by default. Other flows send
	// as to other hosts.
	maxStages = 8

	// spliceFailures is the number of failures after which a link no longer splices.
	spliceFailures = 4
)

// A splicer passes batches from stages to sockets.
type splicer struct {
	size     int    // of the packets that a socket can hold
	stages   int    // with memory
	pipe     [2]int // of 16 pages, empty between two batches
	open     bool
	failures int
	kernel   *diagnosis
}

// canSplice reports whether splice passes a datagram's pages to a socket at once, as it does
// since Linux 6.5.
var canSplice = func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return a > 6 || a == 6 && b >= 5
}()

// splices reports whether to splice a batch.
func (p *splicer) splices(f *flow, tx *link.Tx) bool {
	g := &f.end.stage
	if tx.Bytes < spliceFrom || tx.Bytes > stageSlot || tx.Bytes <= tx.Size || tx.Bytes > tx.Size*f.Segments ||
		!canSplice || g.failed || p.failures >= spliceFailures || !f.end.connected || !f.Dst.Addr().IsLoopback() {
		return false
	}
	if g.mem != nil {
		return g.room() || p.look(f, tx.Bytes)
	}
	if g.before += tx.Bytes; g.before < spliceAfter {
		return false
	}
	p.openStage(f)
	g.failed = g.mem == nil
	return !g.failed
}

// look asks the kernel which batches of a flow's stage are free. It reports whether there is
// room for the next n bytes.
func (p *splicer) look(f *flow, n int) bool {
	g := &f.end.stage
	if g.skip -= n; g.skip > 0 {
		return false
	}
	// Data that leaves an interface's queue meanwhile is counted twice, not missed.
	out, err := unix.IoctlGetInt(f.end.fd, unix.SIOCOUTQ)
	w, ok := p.kernel.ask(f.Src, f.Dst, &g.sole)
	if err == nil && ok {
		g.release(w, out)
	}
	if !g.room() {
		g.skip = lookAfter
		return false
	}
	return true
}

// openStage makes a flow's stage, if the kernel reports what is queued at the peer.
func (p *splicer) openStage(f *flow) {
	if p.kernel == nil {
		if p.kernel = openDiagnosis(f.end.fd); p.kernel == nil {
			p.failures = spliceFailures
			return
		}
	}
	g := &f.end.stage
	w, ok := p.kernel.ask(f.Src, f.Dst, &g.sole)
	if !ok {
		return
	}
	if mem := p.newStage(); mem != nil {
		g.open(mem, w.drops, &p.stages)
	}
}

// newStage returns memory for a stage, or nil if there are enough. It uses huge pages if the
// system has some: splice looks each page up, which takes less time for huge ones.
func (p *splicer) newStage() []byte {
	if p.stages >= maxStages {
		return nil
	}
	size := p.size + p.size/(spliceFrom/pageSize)
	mem, err := unix.Mmap(-1, 0, (size/stageSlot+16)*stageSlot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil
	}
	_, _ = unix.Madvise(mem, unix.MADV_DONTFORK), unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return mem
}

// send sends a batch from the flow's stage, as one datagram that the system segments. It reports
// false if nothing was sent.
func (p *splicer) send(f *flow, tx *link.Tx, pieces [][]byte) bool {
	g := &f.end.stage
	slot := g.next()
	if !stageBatch(slot, pieces, tx.Bytes) || !f.end.setSegment(tx.Size) {
		return false
	}
	sent := p.splice(f.end.fd, slot[:tx.Bytes])
	g.put(tx.Queue, tx.Bytes, sent)
	if !sent {
		p.failures++
		return false
	}
	p.failures = 0
	return true
}

// splice sends b, whose first byte begins a page, as one datagram. Data that remains in the
// pipe is lost with it.
func (p *splicer) splice(fd int, b []byte) bool {
	if !p.open {
		if unix.Pipe2(p.pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
			return false
		}
		p.open = true
	}
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	n, _, _ := unix.RawSyscall6(unix.SYS_VMSPLICE, uintptr(p.pipe[1]), uintptr(unsafe.Pointer(&v)), 1, unix.SPLICE_F_NONBLOCK, 0, 0)
	if n == uintptr(len(b)) {
		n, _, _ = unix.RawSyscall6(unix.SYS_SPLICE, uintptr(p.pipe[0]), 0, uintptr(fd), 0, uintptr(len(b)), unix.SPLICE_F_NONBLOCK)
	}
	runtime.KeepAlive(b)
	if n != uintptr(len(b)) {
		p.close()
		return false
	}
	return true
}

func (p *splicer) close() {
	if p.open {
		_, _ = unix.Close(p.pipe[0]), unix.Close(p.pipe[1])
		p.open = false
	}
}

// stageBatch copies n bytes in pieces to slot. It reports false if the pieces have another
// length, or if their memory is no longer mapped.
func stageBatch(slot []byte, pieces [][]byte, n int) (ok bool) {
	for _, p := range pieces {
		n -= len(p)
	}
	if n != 0 {
		return false
	}
	ok = true
	defer memory.Caught(memory.Guard(), &ok)
	var line [lines.Size]byte
	n = 0 // bytes in line
	for _, p := range pieces {
		if n > 0 {
			k := copy(line[n:], p)
			if n, p = n+k, p[k:]; n < lines.Size {
				continue
			}
			lines.Copy(&slot[0], &line[0], 1)
			slot = slot[lines.Size:]
		}
		if k := len(p) / lines.Size; k > 0 {
			lines.Copy(&slot[0], &p[0], k)
			slot, p = slot[k*lines.Size:], p[k*lines.Size:]
		}
		n = copy(line[:], p)
	}
	copy(slot, line[:n])
	lines.Await()
	return true
}

// setSegment makes the socket segment datagrams that have no control message for it.
func (e *endpoint) setSegment(n int) bool {
	if e.segment == n {
		return true
	}
	if unix.SetsockoptInt(e.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, n) != nil {
		return false
	}
	e.segment = n
	return true
}
