// Package recordfile writes flight recorders to files: as text and as pcapng. It owns the formats and the
// names of the files. It records nothing.
package recordfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/qp"
	"softrdma/internal/recorder"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// A Recording is what is written of a device.
type Recording struct {
	*recorder.Snapshot
	Addr  netip.AddrPort // the device's, as people know it
	Local qp.Endpoint    // where it receives

	// Ended, unless it is 0, is a process that has ended without leaving the device.
	Ended int
}

// WriteText writes the records as text, the oldest first, with times since the first one.
func (r *Recording) WriteText(w io.Writer) error {
	b, now := bufio.NewWriter(w), time.Now()
	fmt.Fprintf(b, "flight recorder of %v at %s: %d records, %d older ones lost\n", r.Addr, now.UTC().Format(time.RFC3339Nano), len(r.Records), r.Lost)
	start := now.Sub(r.Zero)
	if len(r.Records) > 0 {
		start = r.Records[0].Time
	}
	for i := range r.Records {
		fmt.Fprintln(b, r.Records[i].Line(start))
	}
	if r.Ended != 0 {
		fmt.Fprintf(b, "%12.6f  process %d ended without closing the device: it crashed or was killed\n", (now.Sub(r.Zero) - start).Seconds(), r.Ended)
	}
	return b.Flush()
}

// WriteCapture writes the packets as pcapng, without payload: a run of packets is its first one, with a
// comment that says how many they were. All are RoCE v2 packets between the device's address and that of
// the queue pair's peer. If the peer is not known it is 0.0.0.0 or ::.
func (r *Recording) WriteCapture(w io.Writer) error {
	c, err := capture.NewWriter(w)
	if err != nil {
		return err
	}
	for i := range r.Records {
		c.Trace(r.event(&r.Records[i]))
	}
	return c.Close()
}

// Save writes both into a directory, as PID-ADDRESS-qpNUMBER-N with the extensions .txt and .pcapng. N is
// the first that is free: other processes may have had the same number of a process.
func (r *Recording) Save(dir *os.Root, pid int, qpn uint32) error {
	err := r.save(dir, fmt.Sprintf("%d-%s-qp%06x-", pid, fileName(r.Addr.Addr()), qpn))
	if err != nil {
		err = fmt.Errorf("flight recorder in %s: %w", dir.Name(), err)
	}
	return err
}

func (r *Recording) save(dir *os.Root, base string) error {
	text, name, err := create(dir, base)
	if err != nil {
		return err
	}
	err = errors.Join(r.WriteText(text), text.Close())
	packets, e := dir.OpenFile(name+".pcapng", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if e != nil {
		return errors.Join(err, e)
	}
	return errors.Join(err, r.WriteCapture(packets), packets.Close())
}

// fileName returns an address as a part of a file's name.
func fileName(a netip.Addr) string {
	return strings.Map(func(r rune) rune {
		if r == ':' || r == '%' || r == '/' {
			return '-'
		}
		return r
	}, a.String())
}

// create creates the first text file with a number that is not there yet. It returns the file's name without
// the extension.
func create(dir *os.Root, base string) (f *os.File, name string, err error) {
	for n := 1; ; n++ {
		name = fmt.Sprint(base, n)
		f, err = dir.OpenFile(name+".txt", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || n == 10_000 {
			return f, name, err
		}
	}
}

// event returns a record as an event.
func (r *Recording) event(x *recorder.Record) *trace.Event {
	e := &trace.Event{Time: r.Zero.Add(x.Time), QPN: x.QPN, Detail: x.Detail, Said: x.Said, From: x.From, To: x.To, WRID: x.WRID, Status: x.Status}
	switch x.Kind {
	case recorder.State:
		e.Kind = trace.State
	case recorder.Completed:
		e.Kind = trace.Completed
	case recorder.Refused:
		e.Kind = trace.Refused
	case recorder.Sent, recorder.Received:
		e.Kind = trace.Sent
		local, peer := onIP(r.Local, r.Peers[x.QPN])
		p := trace.Packet{Src: local, Dst: peer, TTL: 64}
		if x.Kind == recorder.Received {
			e.Kind, p.Src, p.Dst = trace.Received, peer, local
		}
		h := *x.Header
		h.PKey = 0xffff
		first := int(x.Bytes / x.Count)
		if x.Count > 1 {
			e.Note = capture.Run{Packets: int(x.Count), Bytes: x.Bytes, Time: x.Last - x.Time}.String()
		}
		h.Pad = ib.PadLen(first)
		p.Pieces, p.Missing = [][]byte{h.Append(nil)}, first+int(h.Pad)+ib.ICRCLen
		kept := ib.BTHLen
		if x.Whole {
			kept = h.HeaderLen()
		}
		p.Missing += h.HeaderLen() - kept
		p.Pieces[0] = p.Pieces[0][:kept]
		e.Packet = p
	}
	return e
}

// onIP returns the ends of a connection as addresses of one family with the port of RoCE v2.
func onIP(local qp.Endpoint, peer netip.Addr) (src, dst qp.Endpoint) {
	from, to := qp.OnWire(local).Addr(), peer
	if !to.IsValid() {
		to = netip.IPv4Unspecified()
	}
	if from.Is4() != to.Is4() {
		from, to = netip.AddrFrom16(from.As16()), netip.AddrFrom16(to.As16())
	}
	return netip.AddrPortFrom(from, ib.UDPPort), netip.AddrPortFrom(to, ib.UDPPort)
}
