// Package capture writes the packets of a device to pcapng files, reads captures
// of RoCE v2 traffic from any tool, and reports what is wrong with each packet.
//
// It owns the file formats and the analysis of captured traffic. It never
// accesses a device: the Writer only listens to the device's trace, so a device
// that is not captured pays nothing.
package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

const (
	writeBuffer = 64 << 10
	udpLen      = 8
	maxComments = 8 // per packet; further ones are only counted
)

// ErrClosed is returned by the methods of a closed Writer.
var ErrClosed = errors.New("capture closed")

// A Writer writes a device's packets to a pcapng file, as a listener of its
// trace. It adds the headers that the packets have on the wire, so that their ICRC
// can be verified: IP and UDP headers on a raw IP interface, or the device's own headers
// on an Ethernet interface (RoCE v1) or an InfiniBand interface. Refusals and state changes become
// comments of the packet before them. Its memory is bounded, and it starts no
// goroutine.
//
// A Writer may be attached to several streams at once.
type Writer struct {
	mu      sync.Mutex
	to      io.Writer
	out     bytes.Buffer // whole blocks, after a flush of ng
	ng      *pcapgo.NgWriter
	shared  bool  // other processes write blocks to the same file: each leaves at once, in one write
	err     error // the first one; nothing is written after a failed write
	broken  bool  // the output failed
	closed  bool
	packets uint64

	// The last packet is held until the next one arrives, to collect the
	// comments about it.
	held     bool
	frames   [2]int // numbers of the interfaces in the file, Ethernet and InfiniBand; 0 if there is none yet
	frame    []byte // from the first header to the ICRC, or VCRC
	data     []byte // the part of frame from the BTH on
	info     gopacket.CaptureInfo
	flags    pcapgo.NgEpbFlags
	comments []string
	omitted  int
}

// NewWriter starts a pcapng file on w. The caller closes w.
func NewWriter(w io.Writer) (*Writer, error) { return newWriter(w, false) }

// NewSharedWriter starts a pcapng file to which others write with Continue. A write of w appends to
// the file.
func NewSharedWriter(w io.Writer) (*Writer, error) {
	c, err := newWriter(w, true)
	if err == nil {
		err = c.Flush()
	}
	return c, err
}

// Continue writes to the file of a NewSharedWriter, also of another process. The packets are of RoCE
// v2, as the file's interface is.
func Continue(w io.Writer) (*Writer, error) {
	c, err := newWriter(w, true)
	if err == nil {
		err = c.ng.Flush()
		c.out.Reset() // the file has a header
	}
	return c, err
}

func newWriter(w io.Writer, shared bool) (*Writer, error) {
	c := &Writer{to: w, shared: shared}
	ng, err := pcapgo.NewNgWriterInterface(&c.out, pcapgo.NgInterface{
		Name: "softrdma", LinkType: layers.LinkTypeRaw, OS: runtime.GOOS, TimestampResolution: 9,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "softrdma",
	}})
	if err != nil {
		return nil, fmt.Errorf("start capture: %w", err)
	}
	c.ng = ng
	return c, nil
}

// Trace implements trace.Listener.
func (c *Writer) Trace(e *trace.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.broken {
		return
	}
	switch e.Kind {
	case trace.Sent:
		c.hold(e, pcapgo.NgEpbFlagDirectionOutbound)
	case trace.Received:
		c.hold(e, pcapgo.NgEpbFlagDirectionInbound)
	case trace.Refused:
		// A packet dropped before its Received event comes with the refusal.
		if len(e.Packet.Pieces) > 0 && !c.holds(&e.Packet) {
			c.hold(e, pcapgo.NgEpbFlagDirectionInbound)
		}
		c.comment(fmt.Sprintf("QP 0x%06x %v: %s", e.QPN, e.Detail.Reason, e.Text()))
	case trace.Injected:
		if !c.holds(&e.Packet) {
			direction := pcapgo.NgEpbFlagDirectionInbound
			if e.Sent {
				direction = pcapgo.NgEpbFlagDirectionOutbound
			}
			c.hold(e, direction)
		}
		c.comment("fault " + e.Fault)
	case trace.State:
		s := fmt.Sprintf("QP 0x%06x %v -> %v", e.QPN, qp.State(e.From), qp.State(e.To))
		if e.Detail.Reason != reason.None {
			s = fmt.Sprintf("%s, %v: %v", s, e.Detail.Reason, e.Detail)
		}
		c.comment(s)
	}
}

// holds reports whether p is the held packet.
func (c *Writer) holds(p *trace.Packet) bool {
	rest := c.data
	if !c.held {
		return false
	}
	for _, b := range p.Pieces {
		if len(b) > len(rest) || !bytes.Equal(b, rest[:len(b)]) {
			return false
		}
		rest = rest[len(b):]
	}
	return len(rest) == 0
}

func (c *Writer) comment(s string) {
	if len(c.comments) >= maxComments {
		c.omitted++
		return
	}
	c.comments = append(c.comments, s)
}

// hold writes the held packet and holds the event's packet instead. Comments
// from before the first packet belong to the first packet.
func (c *Writer) hold(e *trace.Event, direction pcapgo.NgEpbFlag) {
	c.write()
	if err := c.build(&e.Packet, e.Time); err != nil {
		c.fail(err)
		return
	}
	c.held = true
	c.flags.Direction = direction
	t := e.Time
	if t.Unix() < 0 { // the format's time starts in 1970
		t = time.Unix(0, 0)
	}
	c.info = gopacket.CaptureInfo{Timestamp: t, CaptureLength: len(c.frame), Length: len(c.frame) + e.Packet.Missing}
	if e.Note != "" {
		c.comment(e.Note)
	}
	if len(e.Packet.Header) > 0 {
		c.info.InterfaceIndex = c.frames[kindOf(&e.Packet)]
	}
}

// build assembles the frame from its headers and the packet's pieces.
func (c *Writer) build(p *trace.Packet, t time.Time) error {
	if len(p.Header) > 0 {
		return c.buildFrame(p, t)
	}
	n := p.Missing
	for _, b := range p.Pieces {
		n += len(b)
	}
	if n > 1<<16-1-udpLen-ib.GRHLen {
		return fmt.Errorf("packet of %d bytes does not fit in a UDP datagram", n)
	}
	var ip [ib.GRHLen]byte
	src, dst := p.Src.Addr().Unmap(), p.Dst.Addr().Unmap()
	k := ib.PutIP(ip[:], src, dst, p.TOS, p.TTL, p.ID, udpLen+n)
	var udp [udpLen]byte
	ib.PutUDP(udp[:], p.Src.Port(), p.Dst.Port(), n, 0)
	c.frame = append(append(c.frame[:0], ip[:k]...), udp[:]...)
	for _, b := range p.Pieces {
		c.frame = append(c.frame, b...)
	}
	c.data = c.frame[k+udpLen:]
	if k == ib.GRHLen && p.Missing == 0 { // IPv6 requires the UDP checksum, which IPv4 omits
		sum := ib.Checksum(17, src, dst, c.frame[k:])
		ib.PutUDP(c.frame[k:], p.Src.Port(), p.Dst.Port(), n, sum)
	}
	return nil
}

// Packets of InfiniBand, from LRH to VCRC, are written as ERF records: of the two possible
// formats, Wireshark 4.0 only reads this one.
const (
	linkInfiniBand layers.LinkType = 247 // LINKTYPE_INFINIBAND
	linkERF        layers.LinkType = 197
	erfHeaderLen                   = 16
	erfInfiniBand                  = 21 // the type of records of InfiniBand packets
)

// putERF writes the header of a record of n bytes.
func putERF(b []byte, t time.Time, n int) {
	stamp := uint64(max(t.Unix(), 0))<<32 | uint64(t.Nanosecond())<<32/1e9
	binary.LittleEndian.PutUint64(b, stamp)
	b[8] = erfInfiniBand
	binary.BigEndian.PutUint16(b[10:], uint16(erfHeaderLen+n))
	binary.BigEndian.PutUint16(b[14:], uint16(n))
}

// interfaces are the interfaces for packets whose headers the device has written.
var interfaces = [2]pcapgo.NgInterface{
	{Name: "softrdma-ethernet", LinkType: layers.LinkTypeEthernet, OS: runtime.GOOS, TimestampResolution: 9},
	{Name: "softrdma-infiniband", LinkType: linkERF, OS: runtime.GOOS, TimestampResolution: 9},
}

// kindOf returns the interface of a packet with headers.
func kindOf(p *trace.Packet) int {
	if p.Native {
		return 1
	}
	return 0
}

// buildFrame assembles a frame whose headers the device has written. The VCRC is that of
// the virtual lane in the LRH.
func (c *Writer) buildFrame(p *trace.Packet, t time.Time) error {
	k := kindOf(p)
	if c.frames[k] == 0 {
		i, err := c.ng.AddInterface(interfaces[k])
		if err != nil {
			return err
		}
		c.frames[k] = i
	}
	front := 0
	if p.Native {
		front = erfHeaderLen
	}
	c.frame = append(append(c.frame[:0], make([]byte, front)...), p.Header...)
	for _, b := range p.Pieces {
		c.frame = append(c.frame, b...)
	}
	end := len(c.frame)
	if p.Native {
		c.frame = append(c.frame, 0, 0)
		ib.PutVCRC(c.frame[front:])
		putERF(c.frame, t, len(c.frame)-front)
	}
	c.data = c.frame[front+len(p.Header) : end]
	return nil
}

// write writes the held packet, if there is one.
func (c *Writer) write() {
	if !c.held {
		return
	}
	if c.omitted > 0 {
		c.comments = append(c.comments, fmt.Sprintf("and %d more", c.omitted))
	}
	o := pcapgo.NgPacketOptions{Flags: &c.flags, Comments: c.comments}
	if err := c.ng.WritePacketWithOptions(c.info, c.frame, o); err != nil {
		c.fail(err)
		c.broken = true
	} else {
		c.packets++
	}
	if c.shared || c.out.Len() >= writeBuffer {
		c.drain()
	}
	c.held = false
	clear(c.comments)
	c.comments, c.omitted = c.comments[:0], 0
}

func (c *Writer) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("capture, after packet %d: %w", c.packets, err)
	}
}

// Packets returns the number of packets written or buffered.
func (c *Writer) Packets() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return c.packets + 1
	}
	return c.packets
}

// Flush writes all traced packets to the output, and returns the Writer's first
// error.
func (c *Writer) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return c.flush()
}

func (c *Writer) flush() error {
	if !c.broken {
		c.write()
		c.drain()
	}
	return c.err
}

// drain writes the blocks to the output.
func (c *Writer) drain() {
	err := c.ng.Flush()
	if err == nil && c.out.Len() > 0 {
		_, err = c.to.Write(c.out.Bytes())
		c.out.Reset()
	}
	if err != nil {
		c.fail(err)
		c.broken = true
	}
}

// Close flushes and returns the Writer's first error. Later events are ignored.
// Close does not close the output.
func (c *Writer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	err := c.flush()
	c.closed = true
	return err
}
