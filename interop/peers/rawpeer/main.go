// Rawpeer is an iWARP initiator that makes one deliberate mistake, or behaves in an unusual way,
// and prints how its peer reacts:
//
//	rawpeer -a 10.78.0.2:7174 corrupted_crc
//
// It prints one line: the reply's flags and revision or "no reply", the peer's Terminates, and
// "closed" or "open".
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"softrdma/internal/wire/iwarp"
)

// timeLimit is the time the peer has to react.
const timeLimit = 4 * time.Second

// An attempt describes a request, and an FPDU to send after the reply has arrived. Fields that are
// not set have defaults.
type attempt struct {
	request func(f *iwarp.Frame)
	key     string // replaces the key of the request
	segment *iwarp.Segment
	payload []byte
	length  int // the FPDU is cut to this length; 0 means no cut
	corrupt bool
}

// attempts maps each case's name to its description. An FPDU is sent only after a reply to the
// request.
var attempts = map[string]attempt{
	"plain":         {},
	"revision_0":    {request: func(f *iwarp.Frame) { f.Revision = 0 }},
	"revision_1":    {request: func(f *iwarp.Frame) { f.Revision, f.Flags = 1, iwarp.FlagCRC }},
	"revision_3":    {request: func(f *iwarp.Frame) { f.Revision = 3 }},
	"key":           {key: "MPA ID Rep Frame"},
	"markers":       {request: func(f *iwarp.Frame) { f.Flags |= iwarp.FlagMarkers }},
	"no_crc":        {request: func(f *iwarp.Frame) { f.Flags &^= iwarp.FlagCRC }},
	"write_nothing": {segment: &iwarp.Segment{Tagged: true, Opcode: iwarp.Write, STag: 0x12345678}},

	"corrupted_crc":       {segment: &iwarp.Segment{Opcode: iwarp.Send, MSN: 1}, payload: make([]byte, 16), corrupt: true},
	"ddp_version":         {segment: &iwarp.Segment{Opcode: iwarp.Send, MSN: 1, DDPVersion: 2, RDMAPVersion: 1}, payload: make([]byte, 16)},
	"ddp_version_tagged":  {segment: &iwarp.Segment{Tagged: true, Opcode: iwarp.Write, DDPVersion: 3, RDMAPVersion: 1}, payload: make([]byte, 16)},
	"rdmap_version":       {segment: &iwarp.Segment{Opcode: iwarp.Send, MSN: 1, DDPVersion: 1, RDMAPVersion: 2}, payload: make([]byte, 16)},
	"opcode":              {segment: &iwarp.Segment{Opcode: 15, MSN: 1}, payload: make([]byte, 16)},
	"short_length":        {segment: &iwarp.Segment{Opcode: iwarp.Send, MSN: 1}, payload: make([]byte, 16), length: 8},
	"send_msn":            {segment: &iwarp.Segment{Opcode: iwarp.Send, MSN: 2}, payload: make([]byte, 16)},
	"send_offset":         {segment: &iwarp.Segment{Opcode: iwarp.Send, MSN: 1, MO: 4}, payload: make([]byte, 16)},
	"send_queue":          {segment: &iwarp.Segment{Opcode: iwarp.Send, Queue: 2, MSN: 1}, payload: make([]byte, 16)},
	"send_too_long":       {segment: &iwarp.Segment{Opcode: iwarp.Send, MSN: 1}, payload: make([]byte, 2000)},
	"write_stag":          {segment: &iwarp.Segment{Tagged: true, Opcode: iwarp.Write, STag: 0x12345678}, payload: make([]byte, 16)},
	"read_msn":            {segment: &iwarp.Segment{Opcode: iwarp.ReadRequest, Queue: 1, MSN: 7}, payload: readOf(0x12345678)},
	"read_stag":           {segment: &iwarp.Segment{Opcode: iwarp.ReadRequest, Queue: 1, MSN: 1}, payload: readOf(0x12345678)},
	"unexpected_response": {segment: &iwarp.Segment{Tagged: true, Opcode: iwarp.ReadResponse, STag: 1}, payload: make([]byte, 16)},
}

func readOf(stag uint32) []byte {
	b := make([]byte, iwarp.ReadLen)
	r := iwarp.Read{SinkSTag: 1, Size: 16, SourceSTag: stag}
	r.Put(b)
	return b
}

func main() {
	addr := flag.String("a", "", "address and port of the peer")
	flag.Parse()
	w, known := attempts[flag.Arg(0)]
	if !known {
		fmt.Fprintf(os.Stderr, "rawpeer: no case is named %q\n", flag.Arg(0))
		os.Exit(2)
	}
	said, err := w.run(*addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rawpeer:", err)
		os.Exit(1)
	}
	fmt.Println(said)
}

func (w *attempt) run(addr string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, timeLimit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write(w.frame()); err != nil {
		return "", err
	}
	c.SetReadDeadline(time.Now().Add(timeLimit))
	head := make([]byte, iwarp.FrameLen)
	var f iwarp.Frame
	if _, err := io.ReadFull(c, head); err != nil {
		return "no reply, " + ended(err), nil
	}
	if f.Parse(head) != iwarp.FrameOK {
		return fmt.Sprintf("not a frame: % x", head), nil
	}
	if _, err := io.CopyN(io.Discard, c, int64(f.Private)); err != nil {
		return "", err
	}
	// The flag by which softrdma peers recognize each other is not part of the result.
	f.Flags &^= iwarp.FlagExtTaken
	said := fmt.Sprintf("reply %#02x revision %d", uint8(f.Flags), f.Revision)
	if f.Flags&iwarp.FlagRejected == 0 && w.segment != nil {
		if _, err := c.Write(w.fpdu()); err != nil {
			return "", err
		}
		go nudge(c)
	}
	return said + ", " + listen(c, f.Flags&iwarp.FlagRejected == 0 && w.segment == nil), nil
}

// frame returns the request: revision 2, with CRCs, without a peer-to-peer connection.
func (w *attempt) frame() []byte {
	f := iwarp.Frame{Flags: iwarp.FlagCRC | iwarp.FlagEnhanced, Revision: 2}
	if w.request != nil {
		w.request(&f)
	}
	b := make([]byte, iwarp.FrameLen+iwarp.EnhancedLen)
	if f.Flags&iwarp.FlagEnhanced == 0 {
		b = b[:iwarp.FrameLen]
	} else {
		e := iwarp.Enhanced{IRD: 4, ORD: 4}
		e.Put(b[iwarp.FrameLen:])
	}
	f.Private = uint16(len(b) - iwarp.FrameLen)
	f.Put(b)
	copy(b, w.key)
	return b
}

// fpdu returns the FPDU to send.
func (w *attempt) fpdu() []byte {
	s := *w.segment
	s.Last = true
	// Put always writes the valid versions; other versions are set below.
	ddp, rdmap := s.DDPVersion, s.RDMAPVersion
	s.Length = uint16(s.HeaderLen() - iwarp.LengthLen + len(w.payload))
	b := make([]byte, iwarp.FPDULen(int(s.Length)))
	n := s.Put(b)
	copy(b[n:], w.payload)
	if ddp != 0 {
		b[2] = b[2]&^3 | ddp
		b[3] = b[3]&0x3f | rdmap<<6
	}
	if w.length != 0 {
		b = b[:iwarp.FPDULen(w.length)]
		binary.BigEndian.PutUint16(b, uint16(w.length))
	}
	end := len(b) - iwarp.CRCLen
	iwarp.PutCRC(b[end:], iwarp.UpdateCRC(0, b[:end]))
	if w.corrupt {
		b[end] ^= 1
	}
	return b
}

// nudge sends empty WRITEs, so that siw also reads an FPDU it has overlooked.
// internal/iwarp/wakeup.go says why.
func nudge(c net.Conn) {
	w := attempt{segment: &iwarp.Segment{Tagged: true, Opcode: iwarp.Write, STag: 1}}
	for _, d := range []time.Duration{100 * time.Millisecond, time.Second} {
		time.Sleep(d)
		if _, err := c.Write(w.fpdu()); err != nil {
			return
		}
	}
}

// listen returns the Terminates that the peer sends and whether it closes the connection. If right
// is set, no reaction is expected and listen waits only briefly.
func listen(c net.Conn, right bool) string {
	wait := timeLimit
	if right {
		wait = 200 * time.Millisecond
	}
	c.SetReadDeadline(time.Now().Add(wait))
	var b []byte
	chunk := make([]byte, 4096)
	for {
		n, err := c.Read(chunk)
		b = append(b, chunk[:n]...)
		if err != nil {
			return strings.Join(append(terminates(b), ended(err)), ", ")
		}
	}
}

// terminates lists the Terminates in a stream of FPDUs.
func terminates(b []byte) (list []string) {
	for len(b) >= iwarp.UntaggedLen {
		var s iwarp.Segment
		if !s.Parse(b) {
			break
		}
		if s.Opcode == iwarp.Terminate {
			var m iwarp.Termination
			m.Parse(b[iwarp.UntaggedLen:])
			list = append(list, fmt.Sprintf("Terminate %#04x (%v)", uint16(m.Term), m.Term))
		}
		b = b[min(len(b), iwarp.FPDULen(int(s.Length))):]
	}
	return list
}

func ended(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "open"
	}
	return "closed"
}
