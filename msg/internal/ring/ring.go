// Package ring carries frames between two workers of one host through shared memory, without a queue
// pair. Each end has memory that the other one maps for reading only. It holds the ring of the frames
// that this end sends, and this end's state as the reader of the other ring:
//
//	line 0     consumed: number of lines of the other ring that are free again (8 bytes)
//	line 1     asleep: changes when this end begins to wait for a bell (4 bytes)
//	line 2     wanting: changes when this end begins to wait for room (4 bytes)
//	line 8...  the ring
//
// A frame takes whole lines. The first one begins with a word: 0 while there is no frame, otherwise the
// frame's length plus 1, or wrap if the frame is at the beginning of the ring. So a short frame costs
// one line that moves from one processor to the other.
//
// An end that is about to sleep changes asleep, and then looks at the ring once more. An end that has sent
// a frame then reads asleep, and if that has changed, rings the other's bell: it sends a frame on the
// connection. All of these accesses are sequentially consistent, so at least one end sees the other's
// change, and no frame is missed.
//
// Neither end trusts what it reads. A peer can send nonsense or stop, but do no other harm.
package ring

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"softrdma/internal/message"
)

const (
	line     = 64
	wordLen  = 8
	head     = 8 * line // before the ring
	minLines = 1 << 10
	ahead    = 8 // lines that are cleared before they are needed

	wrap = 1 << 63
)

// ErrRing is matched by the error of a ring whose sender breaks the rules.
var ErrRing = fmt.Errorf("%w: ring in shared memory is damaged", message.ErrFrame)

// Size returns the size of an end's memory for frames of at most n bytes. The ring has room for eight of
// them.
func Size(n int) int {
	lines := max(minLines, uint64(8*span(n)))
	return head + line<<bits.Len64(lines-1)
}

// span returns how many lines a frame of n bytes takes.
func span(n int) int { return (wordLen + n + line - 1) / line }

// An area is the memory of one end.
type area struct {
	mem             []byte // of the ring
	mask            uint64 // of the numbers of its lines
	consumed        *atomic.Uint64
	asleep, wanting *atomic.Uint32
}

// open returns the area in mem, whose length is that of Size.
func open(mem []byte) (p area, err error) {
	n := len(mem) - head
	if n < minLines*line || n&(n-1) != 0 || uintptr(unsafe.Pointer(&mem[0]))%line != 0 {
		return p, fmt.Errorf("%w: %d bytes of memory at %p", ErrRing, len(mem), mem)
	}
	p.mem, p.mask = mem[head:], uint64(n/line-1)
	p.consumed = (*atomic.Uint64)(unsafe.Pointer(&mem[0]))
	p.asleep = (*atomic.Uint32)(unsafe.Pointer(&mem[line]))
	p.wanting = (*atomic.Uint32)(unsafe.Pointer(&mem[2*line]))
	return p, nil
}

// word returns the first word of a line. Numbers of lines keep counting past the end of the ring.
func (p *area) word(n uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&p.mem[(n&p.mask)*line]))
}

// clear zeroes a word that the other end does not read before the next word is published.
func (p *area) clear(n uint64) { *(*uint64)(unsafe.Pointer(&p.mem[(n&p.mask)*line])) = 0 }

// A Writer sends frames. One goroutine at a time uses it.
type Writer struct {
	own, peer area
	at        uint64 // line of the next frame
	cleared   uint64 // the words of lines from at up to this one are 0
	consumed  uint64 // by the peer, as read last
	rung      uint32 // value of asleep for which the bell was rung
	awaiting  bool   // the peer was asked to report room
	asked     uint64 // value of consumed at that time
}

// NewWriter returns a writer. Own is this end's memory, all zero. Peer is the other end's memory, as this
// end has mapped it. Both have a length of Size.
func NewWriter(own, peer []byte) (*Writer, error) {
	o, err := open(own)
	if err != nil {
		return nil, err
	}
	p, err := open(peer)
	return &Writer{own: o, peer: p, cleared: o.mask + 1}, err
}

// limit returns the first line that is not free.
func (w *Writer) limit() uint64 { return w.consumed + w.own.mask + 1 }

// look reads how much the peer has consumed. It ignores values that are impossible.
func (w *Writer) look() {
	if n := w.peer.consumed.Load(); n-w.consumed <= w.at-w.consumed {
		w.consumed = n
	}
}

// Reserve returns memory for the next frame, of n bytes, or nil if there is no room. Commit sends it.
func (w *Writer) Reserve(n int) []byte {
	k := uint64(span(n))
	i := w.at & w.own.mask
	skip := uint64(0)
	if i+k > w.own.mask+1 {
		skip = w.own.mask + 1 - i
	}
	if w.at+skip+k >= w.limit() { // the word behind the frame must be free as well: publish clears it
		if w.look(); w.at+skip+k >= w.limit() {
			return nil
		}
	}
	w.awaiting = false
	if skip > 0 {
		w.publish(skip, wrap)
	}
	return w.own.mem[(w.at&w.own.mask)*line+wordLen:][:n:n]
}

// Commit sends the frame of n bytes for which Reserve has returned memory.
func (w *Writer) Commit(n int) {
	w.publish(uint64(span(n)), uint64(n)+1)
	for end := min(w.at+ahead, w.limit()-1); w.cleared <= end; w.cleared++ {
		w.own.clear(w.cleared)
	}
}

// publish writes the word of a frame of k lines, or of the k lines that a wrap skips.
func (w *Writer) publish(k, word uint64) {
	next := w.at + k
	if w.cleared <= next {
		w.own.clear(next)
		w.cleared = next + 1
	}
	w.own.word(w.at).Store(word)
	w.at = next
}

// Bell reports whether the peer sleeps and its bell must be rung for what was committed. It reports each
// sleep once.
func (w *Writer) Bell() bool {
	n := w.peer.asleep.Load()
	if n == w.rung {
		return false
	}
	w.rung = n
	return true
}

// Await asks the peer to ring when it has consumed something, unless it was asked before. It reports
// whether the peer has consumed something since: then the caller calls Reserve again.
func (w *Writer) Await() bool {
	if w.awaiting && w.consumed == w.asked {
		return false
	}
	w.awaiting, w.asked = true, w.consumed
	w.own.wanting.Add(1)
	w.look()
	return w.consumed != w.asked
}

// Moved reports whether the peer has consumed something since Await.
func (w *Writer) Moved() bool {
	if w.awaiting {
		w.look()
	}
	return w.awaiting && w.consumed != w.asked
}

// A Reader takes the frames that the peer's Writer sends. One goroutine at a time uses it.
type Reader struct {
	own, peer area
	at        uint64 // line of the next frame
	next      uint64 // line behind the frame that Next returned
	shown     uint64 // at, as the peer can see it
	longest   int    // bytes of a frame
	rung      uint32 // value of wanting for which the bell was rung
}

// NewReader returns a reader of frames of at most n bytes. Own and peer are as for NewWriter.
func NewReader(own, peer []byte, n int) (*Reader, error) {
	o, err := open(own)
	if err != nil {
		return nil, err
	}
	p, err := open(peer)
	return &Reader{own: o, peer: p, longest: n}, err
}

// Next returns the next frame, or nil if there is none. The peer may change its bytes at any time. Release
// frees it.
func (r *Reader) Next() ([]byte, error) {
	word := r.peer.word(r.at).Load()
	if word == 0 {
		return nil, nil
	}
	i := r.at & r.peer.mask
	if word == wrap && i > 0 {
		r.at += r.peer.mask + 1 - i
		if word, i = r.peer.word(r.at).Load(), 0; word == 0 {
			return nil, nil
		}
	}
	room := (r.peer.mask+1-i)*line - wordLen
	if n := word - 1; n > uint64(r.longest) || n > room {
		return nil, fmt.Errorf("%w: frame of %d bytes, expected at most %d", ErrRing, n, min(uint64(r.longest), room))
	}
	n := int(word - 1)
	r.next = r.at + uint64(span(n))
	return r.peer.mem[i*line+wordLen:][:n:n], nil
}

// Release frees the frame that Next has returned. The peer sees that after the next Show.
func (r *Reader) Release() { r.at = r.next }

// Show lets the peer see what was released. It reports whether the peer waits for room and its bell must
// be rung.
func (r *Reader) Show() bool {
	if r.shown == r.at {
		return false
	}
	r.shown = r.at
	r.own.consumed.Store(r.at)
	n := r.peer.wanting.Load()
	if n == r.rung {
		return false
	}
	r.rung = n
	return true
}

// Sleep tells the peer that this end is about to wait for the bell. The caller then calls Next once more
// before it waits.
func (r *Reader) Sleep() { r.own.asleep.Add(1) }

// A Kind says what a Control frame means.
type Kind uint8

// The kinds.
const (
	Offer   Kind = iota + 1 // the sender's memory can be mapped
	Mapped                  // the sender has mapped the receiver's memory
	Entered                 // the frames that follow are in the ring
	Bell                    // there are frames in the sender's ring, or room in the receiver's
	kinds
)

// Magic begins control frames. No other frame has this version.
const Magic = 0

const (
	controlLen = 2
	offerLen   = controlLen + 8 + 4 + 4
)

// A Control frame is sent by the connection itself.
//
//	Magic (1 byte) | kind (1); of an Offer also: address (8) | R_Key (4) | length (4)
type Control struct {
	Kind    Kind
	Address uint64
	Key     uint32
	Len     int
}

// Bytes returns the frame.
func (c Control) Bytes() []byte {
	b := []byte{Magic, byte(c.Kind)}
	if c.Kind == Offer {
		b = binary.BigEndian.AppendUint64(b, c.Address)
		b = binary.BigEndian.AppendUint32(b, c.Key)
		b = binary.BigEndian.AppendUint32(b, uint32(c.Len))
	}
	return b
}

// IsEntered reports whether a frame is the control frame Entered.
func IsEntered(b []byte) bool { return len(b) == controlLen && b[0] == Magic && Kind(b[1]) == Entered }

// ParseControl reads a frame that begins with Magic.
func ParseControl(b []byte) (c Control, err error) {
	want := controlLen
	if len(b) > 1 && Kind(b[1]) == Offer {
		want = offerLen
	}
	if len(b) != want || Kind(b[1]) == 0 || Kind(b[1]) >= kinds {
		return c, fmt.Errorf("%w: control frame of %d bytes, expected %d, and a kind from 1 to %d", ErrRing, len(b), want, kinds-1)
	}
	if c.Kind = Kind(b[1]); c.Kind == Offer {
		c.Address, c.Key, c.Len = binary.BigEndian.Uint64(b[2:]), binary.BigEndian.Uint32(b[10:]), int(binary.BigEndian.Uint32(b[14:]))
	}
	return c, nil
}
