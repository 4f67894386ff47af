package sealed

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/reason"
	"softrdma/internal/wire/psp"
)

// offerLen is the length of an offer on a connection of the meeting.
const offerLen = 96

// offerMagic begins every offer. Another format gets another number.
const offerMagic = 0x50535002

// An offer is what a device tells a peer, so that the peer can send to it:
//
//	 0 magic          4
//	 4 PSP version    1, and 3 bytes of 0
//	 8 SPI            4
//	12 UDP port       2   for PSP packets
//	14 UDP port       2   of the device, which is in the packets
//	16 key           32   its first 16 bytes with AES-GCM-128
//	48 own address   16   IPv4 mapped into IPv6
//	64 peer's        16   as the connection has it: it differs from the peer's own behind an address translator
//	80 name          16   of the sender, for this peer
type offer struct {
	version   psp.Version
	spi       uint32
	port      uint16
	device    uint16
	key       [32]byte
	self, you netip.Addr
	name      pairName
}

func (o *offer) keyBytes() []byte {
	if o.version == psp.AESGCM128 {
		return o.key[:16]
	}
	return o.key[:]
}

func (o *offer) put(b []byte) {
	clear(b[:offerLen])
	binary.BigEndian.PutUint32(b, offerMagic)
	b[4] = uint8(o.version)
	binary.BigEndian.PutUint32(b[8:], o.spi)
	binary.BigEndian.PutUint16(b[12:], o.port)
	binary.BigEndian.PutUint16(b[14:], o.device)
	copy(b[16:48], o.keyBytes())
	for at, a := range map[int]netip.Addr{48: o.self, 64: o.you} {
		if a.IsValid() {
			x := a.As16()
			copy(b[at:], x[:])
		}
	}
	copy(b[80:], o.name[:])
}

// parseOffer reads an offer, which has offerLen bytes.
func parseOffer(b []byte) (o offer, err error) {
	bad := func(expected, found uint64) error {
		return reason.Detail{Reason: reason.PSPOffer, Expected: expected, Found: found}.Err()
	}
	if len(b) != offerLen {
		return o, bad(offerLen, uint64(len(b)))
	}
	if m := binary.BigEndian.Uint32(b); m != offerMagic {
		return o, bad(offerMagic, uint64(m))
	}
	if v := binary.BigEndian.Uint32(b[4:]); v != uint32(psp.AESGCM128)<<24 && v != uint32(psp.AESGCM256)<<24 {
		return o, bad(uint64(psp.AESGCM256)<<24, uint64(v))
	}
	o = offer{
		version: psp.Version(b[4]), spi: binary.BigEndian.Uint32(b[8:]),
		port: binary.BigEndian.Uint16(b[12:]), device: binary.BigEndian.Uint16(b[14:]),
	}
	copy(o.key[:], b[16:48])
	o.self, o.you = netip.AddrFrom16([16]byte(b[48:])).Unmap(), netip.AddrFrom16([16]byte(b[64:])).Unmap()
	copy(o.name[:], b[80:])
	copy(o.key[len(o.keyBytes()):], make([]byte, len(o.key)))
	if o.port == 0 || o.device == 0 {
		return o, bad(1, 0)
	}
	return o, nil
}
