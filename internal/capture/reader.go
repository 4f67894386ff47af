package capture

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// maxSnap is the maximum length of a packet in a classic pcap file.
const maxSnap = 256 << 10

// A Direction is the direction of a packet at the capturing interface.
type Direction uint8

// The directions.
const (
	Unknown Direction = iota
	Inbound
	Outbound
)

// A Verdict is the result of an ICRC check.
type Verdict uint8

// The verdicts.
const (
	Unchecked Verdict = iota // the packet was not captured completely
	Good
	Bad
)

// A Packet is a RoCE packet of a capture.
type Packet struct {
	ib.Packet
	Number    int // of the frame in the file, from 1, counting frames of every kind
	Part      int // number of the packet in a frame with several packets, from 1; else 0
	Time      time.Time
	V1        bool           // RoCE v1
	Native    bool           // InfiniBand; otherwise RoCE v2, unless V1
	Src, Dst  netip.AddrPort // GIDs and, of RoCE v2, UDP ports; of InfiniBand see qp.LIDEndpoint
	TOS, TTL  uint8
	ID        uint16 // IPv4 identification
	Direction Direction
	Comments  []string
	Run       Run // the packets that it stands for; the zero value is itself

	Data      []byte // captured bytes from BTH to ICRC; valid until the next packet
	Length    int    // from BTH to ICRC, on the wire
	Fault     ib.Fault
	ICRC      Verdict
	Expected  uint32 // ICRC that the packet should have
	Found     uint32 // ICRC that it has
	Truncated bool   // only the packet's beginning was captured

	Reassembled bool // from IPv4 fragments
}

// Network returns the kind of network that the packet was made for.
func (p *Packet) Network() string {
	switch {
	case p.V1:
		return "RoCE v1"
	case p.Native:
		return "InfiniBand"
	}
	return "RoCE v2"
}

// ECN returns the packet's ECN field; 3 means that a router marked it.
func (p *Packet) ECN() uint8 { return p.TOS & 3 }

// Endpoints returns the packet's source and destination as text, without a port where
// there is none.
func (p *Packet) Endpoints() (src, dst string) {
	switch {
	case p.V1:
		return p.Src.Addr().String(), p.Dst.Addr().String()
	case p.Native:
		return nativeEndpoint(p.Src), nativeEndpoint(p.Dst)
	}
	return p.Src.String(), p.Dst.String()
}

// nativeEndpoint returns the LID of an endpoint, and its GID if the packet has a GRH.
func nativeEndpoint(e qp.Endpoint) string {
	if e.Addr() == qp.LocalGID {
		return fmt.Sprintf("LID %d", e.Port())
	}
	return fmt.Sprintf("%v (LID %d)", e.Addr(), e.Port())
}

// A Reader yields the packets of RoCE v1, RoCE v2 and InfiniBand of a capture file, pcapng
// or pcap, also compressed with gzip, of the link types Ethernet, Linux cooked (1 and 2), raw
// IP, BSD loopback, PPP, ERF and InfiniBand. It looks into VLAN tags and tunnels, and puts
// fragments of IPv4 together. It counts and skips everything else in the file.
type Reader struct {
	read    func() ([]byte, gopacket.CaptureInfo, pcapgo.NgPacketOptions, error)
	blocks  blocks          // of a pcapng file
	link    layers.LinkType // of a pcap file; in pcapng each packet has its own
	number  int
	roce    int
	skipped map[string]int
	decoder decoder
	parts   parts
	size    int // segment size of the last frame with several packets
}

// NewReader reads the start of a capture. It takes UDP datagrams to port 4791
// and to the given ports as RoCE v2 packets.
func NewReader(r io.Reader, ports ...uint16) (*Reader, error) {
	c := &Reader{skipped: make(map[string]int)}
	c.decoder.ports = append([]uint16{ib.UDPPort}, ports...)
	b := bufio.NewReaderSize(r, writeBuffer)
	magic, err := b.Peek(4)
	if len(magic) == 4 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, e := gzip.NewReader(b)
		if e != nil {
			return nil, e
		}
		b = bufio.NewReaderSize(z, writeBuffer)
		magic, err = b.Peek(4)
	}
	switch {
	case err == io.EOF:
		return nil, fmt.Errorf("not a capture file: %d bytes long", len(magic))
	case err != nil:
		return nil, err
	}
	switch m := binary.LittleEndian.Uint32(magic); m {
	case blockSection:
		err = c.openNG(b)
	case 0xa1b2c3d4, 0xd4c3b2a1, 0xa1b23c4d, 0x4d3cb2a1:
		err = c.openClassic(b)
	default:
		return nil, fmt.Errorf("not a capture file: expected pcapng or pcap, found magic number 0x%08x", m)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Reader) openNG(b *bufio.Reader) error {
	c.blocks.r = b
	ng, err := pcapgo.NewNgReader(&c.blocks, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
	if err != nil {
		return fmt.Errorf("pcapng: %w", err)
	}
	c.read = ng.ZeroCopyReadPacketDataWithOptions
	return nil
}

func (c *Reader) openClassic(b *bufio.Reader) error {
	f, err := pcapgo.NewReader(b)
	if err != nil {
		return fmt.Errorf("pcap: %w", err)
	}
	f.SetSnaplen(min(f.Snaplen(), maxSnap))
	c.link = f.LinkType() & 0x0fff // the upper bits describe the frame check sequence
	c.read = func() ([]byte, gopacket.CaptureInfo, pcapgo.NgPacketOptions, error) {
		data, info, err := f.ZeroCopyReadPacketData()
		return data, info, pcapgo.NgPacketOptions{}, err
	}
	return nil
}

// Next reads the next RoCE packet into p, whose slices are valid until the
// next call. The error is io.EOF at the end of the file, and wraps
// io.ErrUnexpectedEOF if the file ends within a packet.
func (c *Reader) Next(p *Packet) error {
	if c.nextPart(p) {
		c.roce++
		return nil
	}
	for {
		data, info, opts, err := c.read()
		if err == io.EOF {
			return err
		}
		if err != nil && c.blocks.cut { // the library does not wrap the error of its reader
			err = errCut
		}
		if err != nil {
			return fmt.Errorf("capture, after packet %d: %w", c.number, err)
		}
		c.number++
		link := c.link
		if len(info.AncillaryData) > 0 {
			link, _ = info.AncillaryData[0].(layers.LinkType)
		}
		*p = Packet{Number: c.number, Time: info.Timestamp, Comments: opts.Comments}
		for _, x := range opts.Comments {
			if r, ok := parseRun(x); ok {
				p.Run = r
			}
		}
		if other := c.decoder.decode(link, data, p); other != "" {
			c.skip(other)
			continue
		}
		if opts.Flags != nil {
			p.Direction = directions[opts.Flags.Direction&3]
		}
		c.roce++
		c.decoder.check(p)
		c.split(p)
		return nil
	}
}

var directions = [4]Direction{
	pcapgo.NgEpbFlagDirectionInbound:  Inbound,
	pcapgo.NgEpbFlagDirectionOutbound: Outbound,
}

// Packets returns the number of frames read so far and of RoCE packets in them.
func (c *Reader) Packets() (frames, roce int) { return c.number, c.roce }

// maxKinds is the maximum number of kinds of skipped frames that are counted separately.
const maxKinds = 64

// skip counts a frame of another kind.
func (c *Reader) skip(kind string) {
	if kind == fragmentKept {
		return
	}
	if _, ok := c.skipped[kind]; !ok && len(c.skipped) >= maxKinds {
		kind = "others"
	}
	c.skipped[kind]++
}

// Skipped returns the numbers of the frames without a packet of RoCE or InfiniBand, by what they
// have instead.
func (c *Reader) Skipped() map[string]int {
	all := maps.Clone(c.skipped)
	if n := c.decoder.fragments.incomplete(); n > 0 {
		all[fragmentKept] = n
	}
	return all
}
