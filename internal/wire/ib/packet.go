// Package ib has the packet format of the InfiniBand transport: the BTH and every
// extended header of RC, XRC, UC and UD, the GRH, the ICRC, and the IP and UDP headers of
// RoCE v2 that the ICRC covers. One opcode table drives parsing, building and the
// sequence checks of the transports above. For InfiniBand's own links it has the LRH, the
// VCRC and the link packets of flow control.
//
// The acknowledge syndromes with their credits and RNR timers are in aeth.go, the fields that
// the ICRC covers or masks in icrc.go and pseudoheader.go, and the header area in front of
// datagrams in grh.go.
//
// It does no I/O, keeps no state and never panics on any input. Parsed
// payloads alias the buffer that they were parsed from.
package ib

import (
	"encoding/binary"
	"fmt"
)

// UDPPort is the destination port of RoCE v2 (annex A17.3.2.2).
const UDPPort = 4791

// ICRCLen is the length of the invariant CRC at the end of each packet.
const ICRCLen = 4

// A Packet is a transport packet, from the BTH to the payload. The
// opcode's row in the table says which of the extended headers it has.
type Packet struct {
	BTH
	XRCETH    XRCETH
	DETH      DETH
	FETH      FETH
	RETH      RETH
	AtomicETH AtomicETH
	AETH      AETH
	AtomicAck uint64 // original remote data (AtomicAckETH)
	Imm       uint32 // immediate data, in host order of its big-endian field
	IETH      uint32 // R_Key to invalidate
	Payload   []byte // without padding; aliases the receive buffer
}

// A ParseError says what is wrong with a packet. Err is one of the sentinels.
type ParseError struct {
	Opcode          Opcode
	Expected, Found int
	Err             error
}

// Error says what was expected and found.
func (e *ParseError) Error() string {
	return fmt.Sprintf("%v: expected %d, found %d (%v)", e.Err, e.Expected, e.Found, e.Opcode)
}

// Unwrap returns the sentinel.
func (e *ParseError) Unwrap() error { return e.Err }

// Fault is why Parse refused a packet; the zero value is none. It is a value
// and not an error because the receive path must not allocate.
type Fault uint8

// The faults.
const (
	OK             Fault = iota
	Short                // fewer bytes than the opcode's headers and the ICRC
	BadOpcode            // not in the table
	BadVersion           // transport header version other than 0
	BadPad               // padding longer than the payload, or the length no multiple of 4
	ExtraPayload         // payload behind an opcode that has none
	BadLinkVersion       // LRH's version other than 0
	BadLength            // length of the LRH or GRH not the packet's
	BadGRH               // GRH of another version than 6, or not followed by a BTH
)

// Parse reads a packet from the bytes between the network header and the end of
// the ICRC. The packet's Payload aliases b. On a fault the fields up to it are
// set, as far as bytes were there.
func (p *Packet) Parse(b []byte) Fault {
	if len(b) < BTHLen+ICRCLen {
		return Short
	}
	body := b[:len(b)-ICRCLen]
	i, fault := p.parseHeaders(body)
	if fault != OK {
		return fault
	}
	n := len(body) - i.Len
	if int(p.Pad) > n || len(body)&3 != 0 {
		return BadPad
	}
	end := len(body) - int(p.Pad)
	p.Payload = body[i.Len:end:end]
	if !i.Payload && n != 0 {
		return ExtraPayload
	}
	return OK
}

// ParseParts reads a packet whose headers, from the BTH on, and whose payload without
// padding lie in different places. The packet's Payload is payload.
func (p *Packet) ParseParts(headers, payload []byte) Fault {
	fault := p.ParseHeaders(headers)
	switch {
	case fault != OK:
		return fault
	case p.Pad != PadLen(len(payload)):
		return BadPad
	case !p.Opcode.Info().Payload && len(payload) != 0:
		return ExtraPayload
	}
	p.Payload = payload
	return OK
}

// ParseHeaders is ParseParts for a packet whose payload is not known. The payload is nil
// afterwards.
func (p *Packet) ParseHeaders(headers []byte) Fault {
	p.Payload = nil
	if len(headers) < BTHLen {
		p.BTH = BTH{}
		return Short
	}
	i, fault := p.parseHeaders(headers)
	if fault == OK && len(headers) != i.Len {
		return Short
	}
	return fault
}

// parseHeaders reads the BTH and the extended headers at the beginning of b, which holds a
// BTH at least.
func (p *Packet) parseHeaders(b []byte) (*Info, Fault) {
	p.BTH.parse(b)
	i := p.Opcode.Info()
	switch {
	case i == nil:
		return nil, BadOpcode
	case p.Version != 0:
		return nil, BadVersion
	case len(b) < i.Len:
		return nil, Short
	}
	p.parseExtended(i.Headers, b[BTHLen:i.Len])
	return i, OK
}

func (p *Packet) parseExtended(h Headers, b []byte) {
	if h&HasXRCETH != 0 {
		p.XRCETH.parse(b)
		b = b[XRCETHLen:]
	}
	if h&HasDETH != 0 {
		p.DETH.parse(b)
		b = b[DETHLen:]
	}
	if h&HasFETH != 0 {
		p.FETH.parse(b)
		b = b[FETHLen:]
	}
	if h&HasRETH != 0 {
		p.RETH.parse(b)
		b = b[RETHLen:]
	}
	if h&HasAtomicETH != 0 {
		p.AtomicETH.parse(b)
		b = b[AtomicETHLen:]
	}
	if h&HasAETH != 0 {
		p.AETH.parse(b)
		b = b[AETHLen:]
	}
	if h&HasAtomicAckETH != 0 {
		p.AtomicAck = binary.BigEndian.Uint64(b)
		b = b[AtomicAckETHLen:]
	}
	if h&HasImmDt != 0 {
		p.Imm = binary.BigEndian.Uint32(b)
		b = b[ImmDtLen:]
	}
	if h&HasIETH != 0 {
		p.IETH = binary.BigEndian.Uint32(b)
	}
}

// HeaderLen returns the length of the BTH and the extended headers.
func (p *Packet) HeaderLen() int { return p.Opcode.Info().Len }

// PutHeaders writes the headers to b, which must hold HeaderLen bytes, and
// returns how many it wrote. The opcode must be in the table.
func (p *Packet) PutHeaders(b []byte) int {
	i := p.Opcode.Info()
	p.BTH.put(b)
	h, e := i.Headers, b[BTHLen:i.Len]
	if h&HasXRCETH != 0 {
		p.XRCETH.put(e)
		e = e[XRCETHLen:]
	}
	if h&HasDETH != 0 {
		p.DETH.put(e)
		e = e[DETHLen:]
	}
	if h&HasFETH != 0 {
		p.FETH.put(e)
		e = e[FETHLen:]
	}
	if h&HasRETH != 0 {
		p.RETH.put(e)
		e = e[RETHLen:]
	}
	if h&HasAtomicETH != 0 {
		p.AtomicETH.put(e)
		e = e[AtomicETHLen:]
	}
	if h&HasAETH != 0 {
		p.AETH.put(e)
		e = e[AETHLen:]
	}
	if h&HasAtomicAckETH != 0 {
		binary.BigEndian.PutUint64(e, p.AtomicAck)
		e = e[AtomicAckETHLen:]
	}
	if h&HasImmDt != 0 {
		binary.BigEndian.PutUint32(e, p.Imm)
		e = e[ImmDtLen:]
	}
	if h&HasIETH != 0 {
		binary.BigEndian.PutUint32(e, p.IETH)
	}
	return i.Len
}

// A WriteHeader is the headers of a WRITE Only packet.
type WriteHeader [BTHLen + RETHLen]byte

// PutWrite writes the headers of a WRITE Only packet to b. like differs from them only in
// padding, acknowledge request, PSN and RETH.
func (p *Packet) PutWrite(b, like *WriteHeader) {
	*b = *like
	p.putLike((*[BTHLen]byte)(b[:]), (*[BTHLen]byte)(like[:]))
	p.RETH.put(b[BTHLen:])
}

// PutSend writes the header of a SEND Only packet to b. like differs from it only in padding, acknowledge
// request and PSN.
func (p *Packet) PutSend(b, like *[BTHLen]byte) {
	*b = *like
	p.putLike(b, like)
}

// putLike writes padding, acknowledge request and PSN to b, a copy of like that others may have changed.
func (p *Packet) putLike(b, like *[BTHLen]byte) {
	b[1] = like[1]&^0x30 | p.Pad&3<<4
	binary.BigEndian.PutUint32(b[8:], uint32(p.PSN)|uint32(like[8]&^0x80|bit(p.AckReq, 7))<<24)
}

// Append appends headers, payload and padding (from BTH.Pad) to b, without
// the ICRC, which depends on the addresses: see Prefix.
func (p *Packet) Append(b []byte) []byte {
	var h [MaxHeaderLen]byte
	n := p.PutHeaders(h[:])
	b = append(b, h[:n]...)
	b = append(b, p.Payload...)
	return append(b, padding[:p.Pad&3]...)
}

var padding [3]byte

// PadLen returns the padding that a payload of n bytes needs (IBTA 9.2).
func PadLen(n int) uint8 { return uint8(-n & 3) }
