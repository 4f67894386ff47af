package ib

// An Opcode is the first byte of the BTH: three bits of transport and five of
// operation (IBTA 9.2.1, table 38).
type Opcode uint8

// A Transport is the upper three bits of an opcode.
type Transport uint8

// The transports that RoCE carries here. RD and CNP's 0x81 are their own.
const (
	RC  Transport = 0
	UC  Transport = 1
	RD  Transport = 2
	UD  Transport = 3
	XRC Transport = 5 // annex A14: the operations of RC up to A19's
)

// The operations of the reliable connection (IBTA table 38).
const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0a
	RCWriteOnlyImm       Opcode = 0x0b
	RCReadRequest        Opcode = 0x0c
	RCReadResponseFirst  Opcode = 0x0d
	RCReadResponseMiddle Opcode = 0x0e
	RCReadResponseLast   Opcode = 0x0f
	RCReadResponseOnly   Opcode = 0x10
	RCAcknowledge        Opcode = 0x11
	RCAtomicAcknowledge  Opcode = 0x12
	RCCompareSwap        Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInvalidate Opcode = 0x16
	RCSendOnlyInvalidate Opcode = 0x17
	RCFlush              Opcode = 0x1c // annex A19
	RCAtomicWrite        Opcode = 0x1d // annex A19
	UCSendFirst          Opcode = 0x20
	UCSendMiddle         Opcode = 0x21
	UCSendLast           Opcode = 0x22
	UCSendLastImm        Opcode = 0x23
	UCSendOnly           Opcode = 0x24
	UCSendOnlyImm        Opcode = 0x25
	UCWriteFirst         Opcode = 0x26
	UCWriteMiddle        Opcode = 0x27
	UCWriteLast          Opcode = 0x28
	UCWriteLastImm       Opcode = 0x29
	UCWriteOnly          Opcode = 0x2a
	UCWriteOnlyImm       Opcode = 0x2b
	UDSendOnly           Opcode = 0x64
	UDSendOnlyImm        Opcode = 0x65
	CongestionNotify     Opcode = 0x81 // CNP, annex A17.9.3
	RCSelectiveAck       Opcode = 0xd1 // softrdma's own, of the manufacturers' range 0xc0 to 0xff; see package own
	RCReason             Opcode = 0xd2 // the same
	RCPathProbe          Opcode = 0xd3 // the same
	RCTelemetry          Opcode = 0xd4 // the same
)

// A Kind is the operation of an opcode, without transport and segment.
type Kind uint8

// The kinds of packet.
const (
	KindNone Kind = iota
	KindSend
	KindWrite
	KindReadRequest
	KindReadResponse
	KindAcknowledge
	KindAtomicAcknowledge
	KindCompareSwap
	KindFetchAdd
	KindFlush
	KindAtomicWrite
	KindCongestion
	KindSelectiveAck
	KindReason
	KindPathProbe
	KindTelemetry
)

// Headers is the set of extended headers that follow the BTH, in the order of
// the bits (IBTA table 38).
type Headers uint16

// The extended headers.
const (
	HasXRCETH Headers = 1 << iota
	HasDETH
	HasFETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH
)

// Info is a row of the opcode table. Parsing, building and the sequence checks
// of every transport are driven by it and by nothing else.
type Info struct {
	Name    string
	Kind    Kind
	First   bool // starts a message (FIRST or ONLY)
	Last    bool // ends a message (LAST or ONLY)
	Headers Headers
	Len     int  // BTH and extended headers, in bytes
	Payload bool // a payload may follow
}

// Info returns the opcode's row, nil for one that is not defined.
func (o Opcode) Info() *Info { return table[o] }

// Asks reports whether the packet asks for a response: that of a READ or an atomic, or the
// READ response without data that answers a FLUSH or an ATOMIC WRITE (IBTA A19).
func (i *Info) Asks() bool {
	switch i.Kind {
	case KindReadRequest, KindFetchAdd, KindCompareSwap, KindFlush, KindAtomicWrite:
		return true
	}
	return false
}

// Segment returns the opcode of a part of a packet, which may have its beginning, its end,
// or both: of a SEND Only with Immediate, SEND First is the part with the beginning and
// SEND Last with Immediate that with the end.
func (o Opcode) Segment(begins, ends bool) Opcode {
	seg := 0
	if begins {
		seg |= first
	}
	if ends {
		seg |= last
	}
	return segments[o][seg]
}

// Transport returns the upper three bits, or for a manufacturer's opcode the transport
// that it belongs to.
func (o Opcode) Transport() Transport {
	if o == RCSelectiveAck || o == RCReason || o == RCPathProbe || o == RCTelemetry {
		return RC
	}
	return Transport(o >> 5)
}

// Of returns the opcode of the same operation in another transport. XRC has those of RC
// except for annex A19's.
func (o Opcode) Of(t Transport) Opcode { return Opcode(t)<<5 | o&0x1f }

// String returns the name of the specification, or the number.
func (o Opcode) String() string {
	if i := table[o]; i != nil {
		return i.Name
	}
	return "opcode 0x" + hex8(uint8(o))
}

func hex8(b uint8) string {
	const d = "0123456789abcdef"
	return string([]byte{d[b>>4], d[b&15]})
}

const (
	first  = 1
	middle = 0
	last   = 2
	only   = 3
)

var table = func() (t [256]*Info) {
	row := func(o Opcode, name string, k Kind, seg int, h Headers, payload bool) {
		i := &Info{Name: name, Kind: k, First: seg&first != 0, Last: seg&last != 0, Headers: h, Payload: payload}
		i.Len = BTHLen + h.length()
		t[o] = i
	}
	for _, tr := range []struct {
		of      Transport
		name    string
		request Headers // of each request (annex A14)
	}{{RC, "RC ", 0}, {UC, "UC ", 0}, {XRC, "XRC ", HasXRCETH}} {
		n, x := tr.name, tr.request
		row(RCSendFirst.Of(tr.of), n+"SEND First", KindSend, first, x, true)
		row(RCSendMiddle.Of(tr.of), n+"SEND Middle", KindSend, middle, x, true)
		row(RCSendLast.Of(tr.of), n+"SEND Last", KindSend, last, x, true)
		row(RCSendLastImm.Of(tr.of), n+"SEND Last with Immediate", KindSend, last, x|HasImmDt, true)
		row(RCSendOnly.Of(tr.of), n+"SEND Only", KindSend, only, x, true)
		row(RCSendOnlyImm.Of(tr.of), n+"SEND Only with Immediate", KindSend, only, x|HasImmDt, true)
		row(RCWriteFirst.Of(tr.of), n+"RDMA WRITE First", KindWrite, first, x|HasRETH, true)
		row(RCWriteMiddle.Of(tr.of), n+"RDMA WRITE Middle", KindWrite, middle, x, true)
		row(RCWriteLast.Of(tr.of), n+"RDMA WRITE Last", KindWrite, last, x, true)
		row(RCWriteLastImm.Of(tr.of), n+"RDMA WRITE Last with Immediate", KindWrite, last, x|HasImmDt, true)
		row(RCWriteOnly.Of(tr.of), n+"RDMA WRITE Only", KindWrite, only, x|HasRETH, true)
		row(RCWriteOnlyImm.Of(tr.of), n+"RDMA WRITE Only with Immediate", KindWrite, only, x|HasRETH|HasImmDt, true)
		if tr.of == UC {
			continue
		}
		row(RCReadRequest.Of(tr.of), n+"RDMA READ Request", KindReadRequest, only, x|HasRETH, false)
		row(RCReadResponseFirst.Of(tr.of), n+"RDMA READ Response First", KindReadResponse, first, HasAETH, true)
		row(RCReadResponseMiddle.Of(tr.of), n+"RDMA READ Response Middle", KindReadResponse, middle, 0, true)
		row(RCReadResponseLast.Of(tr.of), n+"RDMA READ Response Last", KindReadResponse, last, HasAETH, true)
		row(RCReadResponseOnly.Of(tr.of), n+"RDMA READ Response Only", KindReadResponse, only, HasAETH, true)
		row(RCAcknowledge.Of(tr.of), n+"Acknowledge", KindAcknowledge, only, HasAETH, false)
		row(RCAtomicAcknowledge.Of(tr.of), n+"ATOMIC Acknowledge", KindAtomicAcknowledge, only, HasAETH|HasAtomicAckETH, false)
		row(RCCompareSwap.Of(tr.of), n+"CmpSwap", KindCompareSwap, only, x|HasAtomicETH, false)
		row(RCFetchAdd.Of(tr.of), n+"FetchAdd", KindFetchAdd, only, x|HasAtomicETH, false)
		row(RCSendLastInvalidate.Of(tr.of), n+"SEND Last with Invalidate", KindSend, last, x|HasIETH, true)
		row(RCSendOnlyInvalidate.Of(tr.of), n+"SEND Only with Invalidate", KindSend, only, x|HasIETH, true)
	}
	row(RCFlush, "RC FLUSH", KindFlush, only, HasFETH|HasRETH, false)
	row(RCAtomicWrite, "RC ATOMIC WRITE Only", KindAtomicWrite, only, HasRETH, true)
	row(UDSendOnly, "UD SEND Only", KindSend, only, HasDETH, true)
	row(UDSendOnlyImm, "UD SEND Only with Immediate", KindSend, only, HasDETH|HasImmDt, true)
	row(RCSelectiveAck, "RC Selective Acknowledge (softrdma)", KindSelectiveAck, only, HasAETH, true)
	row(RCReason, "RC Reason (softrdma)", KindReason, only, HasAETH, true)
	row(RCPathProbe, "RC Path Probe (softrdma)", KindPathProbe, only, 0, true)
	row(RCTelemetry, "RC Telemetry (softrdma)", KindTelemetry, only, HasAETH, true)
	row(CongestionNotify, "CNP", KindCongestion, only, 0, true) // 16 reserved bytes, A17.9.3
	return t
}()

// segments has the opcode of each segment of each opcode; see Opcode.Segment.
var segments = func() (t [256][4]Opcode) {
	const end = HasImmDt | HasIETH // headers that only the last packet has
	for o, i := range table {
		if i == nil {
			continue
		}
		for seg := range t[o] {
			t[o][seg] = Opcode(o)
			begins, ends := i.First && seg&first != 0, i.Last && seg&last != 0
			var tail Headers
			if ends {
				tail = i.Headers & end
			}
			for p, x := range table {
				if x != nil && Opcode(p).Transport() == Opcode(o).Transport() && x.Kind == i.Kind &&
					x.First == begins && x.Last == ends && x.Headers&end == tail {
					t[o][seg] = Opcode(p)
				}
			}
		}
	}
	return t
}()
