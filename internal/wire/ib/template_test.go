package ib

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"softrdma/internal/psn"
)

// The template of a FIRST packet writes and matches the headers that Packet builds for the
// packets in the middle of the message, across the wrap of the PSN.
func TestTemplateWritesMiddlePackets(t *testing.T) {
	for _, first := range []Opcode{RCSendFirst, RCWriteFirst, UCSendFirst, UCWriteFirst, RCReadResponseFirst, RCWriteMiddle} {
		p := Packet{BTH: BTH{
			Opcode: first, Solicited: true, Pad: 3, PKey: 0xffff, MigReq: true, FECN: true, DestQPN: 0xabcdef,
			AckReq: true, Selective: true, PSN: psn.New(0xfffffe),
		}}
		var h, got [MaxHeaderLen]byte
		p.PutHeaders(h[:])
		var m Template
		m.Follow(h[:])
		p.Opcode, p.Solicited, p.Pad, p.AckReq = first.Segment(false, false), false, 0, false
		for range 3 {
			p.PSN = p.PSN.Next()
			p.PutHeaders(h[:])
			if !m.Match(h[:]) {
				t.Fatalf("%v: PSN %v does not match", first, p.PSN)
			}
			if m.Put(got[:]); !bytes.Equal(got[:BTHLen], h[:BTHLen]) {
				t.Fatalf("%v: %x, want %x", first, got[:BTHLen], h[:BTHLen])
			}
			if m.Opcode() != p.Opcode || m.PSN() != p.PSN {
				t.Fatalf("%v with PSN %v, want %v with %v", m.Opcode(), m.PSN(), p.Opcode, p.PSN)
			}
			m.Next()
		}
	}
}

func TestTemplateMatchesNothingElse(t *testing.T) {
	var h [MaxHeaderLen]byte
	p := Packet{BTH: BTH{Opcode: RCWriteMiddle, PKey: 0xffff, DestQPN: 7, PSN: psn.New(4)}}
	p.PutHeaders(h[:])
	var m Template
	m.Follow(h[:])
	p.PSN = p.PSN.Next()
	p.PutHeaders(h[:])
	for i := range BTHLen * 8 {
		x := h
		x[i/8] ^= 1 << (i % 8)
		if m.Match(x[:]) {
			t.Errorf("a header whose bit %d is wrong matches", i)
		}
	}
	if !m.Match(h[:]) {
		t.Error("the expected header does not match")
	}
}

// PutWrite writes what PutHeaders does, whatever the WRITE was like before which it follows.
func TestPutWriteWritesTheHeadersOfAWriteOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	like, got, want := new(WriteHeader), new(WriteHeader), new(WriteHeader)
	p := Packet{BTH: BTH{Opcode: RCWriteOnly, Solicited: true, PKey: 0x8001, MigReq: true, BECN: true, DestQPN: 0xabcdef, Selective: true, Keep: true}}
	p.PutHeaders(like[:])
	for range 1000 {
		p.PSN, p.Pad, p.AckReq = psn.New(rng.Uint32()), uint8(rng.IntN(4)), rng.IntN(2) == 0
		p.RETH = RETH{Addr: rng.Uint64(), RKey: rng.Uint32(), Length: rng.Uint32()}
		p.PutWrite(got, like)
		p.PutHeaders(want[:])
		if *got != *want {
			t.Fatalf("%x, want %x", *got, *want)
		}
		*like = *got
	}
}

// PutSend does the same for a SEND.
func TestPutSendWritesTheHeaderOfASendOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	like, got, want := new([BTHLen]byte), new([BTHLen]byte), new([BTHLen]byte)
	p := Packet{BTH: BTH{Opcode: RCSendOnly, PKey: 0x8001, MigReq: true, BECN: true, DestQPN: 0xabcdef, Selective: true, Keep: true}}
	p.PutHeaders(like[:])
	for range 1000 {
		p.PSN, p.Pad, p.AckReq = psn.New(rng.Uint32()), uint8(rng.IntN(4)), rng.IntN(2) == 0
		p.PutSend(got, like)
		p.PutHeaders(want[:])
		if *got != *want {
			t.Fatalf("%x, want %x", *got, *want)
		}
		*like = *got
	}
}
