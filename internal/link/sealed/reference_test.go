package sealed

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/psp"
)

// referenceEnv names the folder of psp_encrypt and psp_decrypt, the programs of google/psp.
const referenceEnv = "SOFTRDMA_PSP_REFERENCE"

var update = flag.Bool("update", false, "write the captures of "+referenceEnv+" to testdata")

// The master keys of the specification's examples and of google/psp's tests.
var referenceMasters = [2][psp.MasterLen]byte{
	[psp.MasterLen]byte(unhex("34448a064292601b11a0978f56a2d34cf3fc35ede1a6bc04f8db3e5243a2b0ca")),
	[psp.MasterLen]byte(unhex("563952565d3a78ae773ec1b779f2f2d99f4a7f53a6fbb9b07d5b71f39364d739")),
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// A reference is how the programs of google/psp are called.
type reference struct {
	family  string // of the IP addresses
	version psp.Version
	spi     uint32
	words   int // crypt offset, in units of 4 bytes
	cookie  bool
	masters [2][psp.MasterLen]byte
}

// Captures of testdata. The files clear_* are packets of the server of softrdma rping to the client: RC SEND, WRITE, READ
// requests, acknowledges, and queue pair 1. Those over IPv6 have the UDP checksum that the system adds. The
// files reference_* are what psp_encrypt made of them.
var references = []reference{
	{family: "ipv4", version: psp.AESGCM128, spi: 0x9a345678, masters: referenceMasters},
	{family: "ipv4", version: psp.AESGCM256, spi: 0x12345678, masters: referenceMasters},
	{family: "ipv6", version: psp.AESGCM128, spi: 0x12345678, masters: referenceMasters},
	{family: "ipv6", version: psp.AESGCM256, spi: 0x9a345678, masters: referenceMasters},
	{family: "ipv4", version: psp.AESGCM128, spi: 0x9a345678, masters: referenceMasters, words: 1},
	{family: "ipv6", version: psp.AESGCM256, spi: 0x12345678, masters: referenceMasters, words: 3, cookie: true},
}

func (c *reference) bits() int { return 128 << c.version }

func (c *reference) String() string {
	s := fmt.Sprintf("reference_%s_%d", c.family, c.bits())
	if c.words > 0 {
		s += fmt.Sprintf("_offset_%d", 4*c.words)
	}
	if c.cookie {
		s += "_cookie"
	}
	return s
}

// clear returns the packets before encryption.
func (c *reference) clear(t *testing.T) []*frame {
	return readFrames(t, filepath.Join("testdata", "clear_"+c.family+".pcap"))
}

func (c *reference) key(t *testing.T) *psp.Key {
	t.Helper()
	b, err := psp.Derive(&c.masters[c.spi/psp.Phase], c.spi, c.version)
	if err != nil {
		t.Fatal(err)
	}
	k, err := psp.NewKey(c.spi, c.version, b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// pair returns two links, of which the first has the key of the SPI from the second one.
func (c *reference) pair(t *testing.T, f *frame) *pair {
	t.Helper()
	p := &pair{TB: t, told: true}
	at := [2]netip.AddrPort{netip.AddrPortFrom(f.src.Addr(), ib.UDPPort), netip.AddrPortFrom(f.dst.Addr(), ib.UDPPort)}
	for i := range p.e {
		p.e[i] = NewEndpoint(at[i], psp.Port)
		p.wires[i] = &wire{local: netip.AddrPortFrom(at[i].Addr(), psp.Port)}
		p.links[i] = New(p.wires[i], p.e[i], nil)
	}
	e := p.e[1]
	e.masters, e.phase, e.next, e.version = c.masters, c.spi/psp.Phase, c.spi%psp.Phase, c.version
	p.s[0], p.s[1] = join(t, p.e[0], p.e[1], at[0], at[1], always)
	p.s[0].out.iv.Store(1) // the program's first one
	return p
}

// seal sends what a frame carries over the first link and returns what is on the wire.
func (p *pair) seal(f *frame) link.Rx {
	p.Helper()
	var err error
	p.wires[0].port = f.src.Port()
	if p.flow, err = p.links[0].OpenFlow(f.dst, 0); err != nil {
		p.Fatal(err)
	}
	defer p.links[0].CloseFlow(&p.flow.Flow)
	return p.send(len(f.data()), f.data())
}

// opens expects the second link to take the packet in a frame, and to return what the other frame has in the clear.
func (p *pair) opens(sealed, clear *frame, refused ...reason.Reason) {
	p.Helper()
	p.flow = &link.DatagramFlow{Src: clear.src, Dst: clear.dst}
	want := clear.data()
	if len(refused) > 0 {
		want = nil
	}
	p.expect(link.Rx{Data: sealed.data(), Size: len(sealed.data()), Src: sealed.src, Dst: sealed.dst}, want, refused...)
}

// A frame is a UDP datagram with its Ethernet and IP headers.
type frame struct {
	b        []byte
	udp      int // offset of the UDP header
	src, dst netip.AddrPort
}

func (f *frame) data() []byte { return f.b[f.udp+udpLen:] }

// checksum returns the UDP checksum.
func (f *frame) checksum() []byte { return f.b[f.udp+6:][:2] }

func parseFrame(t *testing.T, b []byte) *frame {
	t.Helper()
	f := &frame{b: b}
	var src, dst netip.Addr
	switch kind := binary.BigEndian.Uint16(b[12:]); kind {
	case 0x0800:
		f.udp, src, dst = 34, netip.AddrFrom4([4]byte(b[26:])), netip.AddrFrom4([4]byte(b[30:]))
	case 0x86dd:
		f.udp, src, dst = 54, netip.AddrFrom16([16]byte(b[22:])), netip.AddrFrom16([16]byte(b[38:]))
	default:
		t.Fatalf("EtherType %#04x, expected IP", kind)
	}
	u := b[f.udp:]
	f.src, f.dst = netip.AddrPortFrom(src, binary.BigEndian.Uint16(u)), netip.AddrPortFrom(dst, binary.BigEndian.Uint16(u[2:]))
	if n := int(binary.BigEndian.Uint16(u[4:])); n != len(u) {
		t.Fatalf("UDP length %d, expected %d", n, len(u))
	}
	return f
}

// carry returns the frame with another datagram. The checksum of the IPv4 header is wrong: psp_decrypt computes it.
func (f *frame) carry(t *testing.T, on link.Rx) *frame {
	t.Helper()
	b := append(bytes.Clone(f.b[:f.udp+udpLen]), on.Data...)
	putUDP(b[f.udp:], on.Src.Port(), on.Dst.Port(), udpLen+len(on.Data))
	if f.src.Addr().Is4() {
		binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
	} else {
		binary.BigEndian.PutUint16(b[18:], uint16(len(b)-f.udp))
	}
	return parseFrame(t, b)
}

// unchecked returns the frame without its UDP checksum.
func (f *frame) unchecked() *frame {
	g := *f
	g.b = bytes.Clone(f.b)
	clear(g.checksum())
	return &g
}

func readFrames(t *testing.T, name string) (frames []*frame) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapgo.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, parseFrame(t, b))
	}
}

func writeFrames(t *testing.T, name string, frames []*frame) {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	err := w.WriteFileHeader(9014, layers.LinkTypeEthernet)
	for _, f := range frames {
		err = errors.Join(err, w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(f.b), Length: len(f.b)}, f.b))
	}
	if err = errors.Join(err, os.WriteFile(name, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// compare checks that this package and the program make the same of packets, in both directions.
func (c *reference) compare(t *testing.T, clear, sealed []*frame) {
	t.Helper()
	if len(clear) < 20 || len(sealed) != len(clear) {
		t.Fatalf("%d packets of %d, expected at least 20 of as many", len(sealed), len(clear))
	}
	from, to, key := c.pair(t, clear[0]), c.pair(t, clear[0]), c.key(t)
	plain := c.words == 0 && !c.cookie
	for i, f := range clear {
		b, transport := sealed[i].data(), f.b[f.udp:]
		want := psp.Header{
			Next: psp.NextUDP, CryptOffset: 4 * c.words, Version: c.version, SPI: c.spi, IV: uint64(i + 1), HasCookie: c.cookie,
		}
		h, length, err := psp.Parse(b)
		if c.words < 2 {
			h.Cookie = 0 // or encrypted
		}
		if err != nil || h != want || length != want.Len() || sealed[i].dst.Port() != psp.Port {
			t.Errorf("packet %d to %v: expected %+v, found %+v, %v", i, sealed[i].dst, want, h, err)
			continue
		}
		opened := bytes.Clone(b)
		got, err := key.Open(opened, &h, length)
		if err != nil || !bytes.Equal(got, transport) || c.cookie && !bytes.Equal(opened[psp.HeaderLen:length], make([]byte, psp.CookieLen)) {
			t.Errorf("packet %d: expected %x\nfound %x, %v", i, transport, got, err)
		}
		own := append(append(make([]byte, want.Len()), transport...), make([]byte, psp.ICVLen)...)
		if err := key.Seal(own, &want); err != nil || !bytes.Equal(own, b) {
			t.Errorf("packet %d: expected %x\nfound %x, %v", i, b, own, err)
		}
		if !plain {
			to.opens(sealed[i], f, reason.PSPPacket)
			continue
		}
		to.opens(sealed[i], f)
		// A device sends no UDP checksum within PSP. In the clear the system adds one over IPv6.
		on := from.seal(f)
		if binary.BigEndian.Uint16(f.checksum()) == 0 && !bytes.Equal(on.Data, b) {
			t.Errorf("packet %d: expected %x\nsent %x", i, b, on.Data)
		}
		got, err = key.Open(bytes.Clone(on.Data), &h, length)
		if err != nil || !bytes.Equal(got, f.unchecked().b[f.udp:]) || on.Src != f.src {
			t.Errorf("packet %d from %v: expected %x\nfound %x, %v", i, on.Src, f.unchecked().b[f.udp:], got, err)
		}
	}
}

// What google/psp's psp_encrypt makes of a device's packets is what this package makes of them, byte for byte, and opens. A
// link takes all but those with a crypt offset or a cookie, which no peer is to send.
func TestPacketsOfTheReferenceProgram(t *testing.T) {
	for _, c := range references {
		t.Run(c.String(), func(t *testing.T) {
			c.compare(t, c.clear(t), readFrames(t, filepath.Join("testdata", c.String()+".pcap")))
		})
	}
}

// run runs a program of google/psp on frames, and returns what it makes of them and what it prints.
func (c *reference) run(t *testing.T, program string, frames []*frame, flags ...string) (out []*frame, said string, err error) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	config := fmt.Sprintf("% x\n% x\n", c.masters[0], c.masters[1])
	if program == "psp_encrypt" { // the numbers behind the first offset are those of the tunnel mode
		config += fmt.Sprintf("%08X\ntransport\naes-gcm-%d\n%d\n6\n11\n%s\n", c.spi, c.bits(), c.words, map[bool]string{true: "vc", false: "no-vc"}[c.cookie])
	}
	if err := os.WriteFile(file("config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	writeFrames(t, file("in"), frames)
	args := append(flags, "-v", "-c", file("config"), "-i", file("in"), "-o", file("out"))
	b, err := exec.Command(filepath.Join(os.Getenv(referenceEnv), program), args...).CombinedOutput()
	if err == nil {
		out = readFrames(t, file("out"))
	}
	return out, string(b), err
}

// derived is where the programs print the key.
var derived = regexp.MustCompile(`Derived Key:\n([0-9a-f ]+)\n`)

// The programs of google/psp open what a link seals, and a link opens what they seal, with random master keys, SPIs and
// crypt offsets. Both derive the same keys, and refuse packets that were changed.
func TestReferenceProgram(t *testing.T) {
	if os.Getenv(referenceEnv) == "" {
		t.Skipf("SKIPPED: %s does not name the folder of google/psp's programs", referenceEnv)
	}
	r := rand.New(rand.NewPCG(1, 2))
	rounds := references
	for i := range 64 {
		c := reference{family: []string{"ipv4", "ipv6"}[i%2], version: psp.Version(i / 2 % 2), spi: r.Uint32()}
		if i%4 == 3 {
			c.words, c.cookie = r.IntN(8), i%8 == 3
		}
		for m := range c.masters {
			for j := range c.masters[m] {
				c.masters[m][j] = byte(r.Uint32())
			}
		}
		rounds = append(rounds, c)
	}
	for i, c := range rounds {
		t.Run(fmt.Sprint(i, c.String()), func(t *testing.T) { c.judge(t, *update && i < len(references)) })
	}
}

func (c *reference) judge(t *testing.T, keep bool) {
	clear := c.clear(t)
	sealed, said, err := c.run(t, "psp_encrypt", clear)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	key, err := psp.Derive(&c.masters[c.spi/psp.Phase], c.spi, c.version)
	if err != nil {
		t.Fatal(err)
	}
	m := derived.FindStringSubmatch(said)
	if m == nil || strings.TrimSpace(m[1]) != fmt.Sprintf("% x", key) {
		t.Errorf("SPI %#08x: derived %x, the program: %s", c.spi, key, said)
	}
	if keep {
		writeFrames(t, filepath.Join("testdata", c.String()+".pcap"), sealed)
	}
	c.compare(t, clear, sealed)
	if c.words > 0 || c.cookie {
		return
	}
	var own, want []*frame
	p := c.pair(t, clear[0])
	for _, f := range clear {
		own, want = append(own, f.carry(t, p.seal(f))), append(want, f.unchecked())
	}
	got, said, err := c.run(t, "psp_decrypt", own)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d packets of %d, %v: %s", len(got), len(want), err, said)
	}
	for i := range got {
		if !bytes.Equal(got[i].b, want[i].b) {
			t.Errorf("packet %d: expected %x\nfound %x", i, want[i].b, got[i].b)
		}
	}
	changed, said, err := c.run(t, "psp_encrypt", clear, "-e")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	q := c.pair(t, clear[0])
	for i := range changed {
		q.opens(changed[i], clear[i], reason.PSPIntegrity)
		q.opens(sealed[i], clear[i])
		q.opens(sealed[i], clear[i], reason.PSPReplay)
	}
	bad := own[len(own)/2].data()
	bad[len(bad)/2] ^= 1
	if _, said, err := c.run(t, "psp_decrypt", own); err == nil {
		t.Errorf("a changed packet was taken: %s", said)
	}
}
