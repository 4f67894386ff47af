package verbs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// WriteRecord writes the device's flight recorder as text: the headers of the last packets, the last
// refusals, changes of state and failed completions, the oldest first. Every device keeps them, without
// payload: for each lane the last 256 runs of packets, of which one is any number of packets in sequence
// with the same opcode, and 64 others. Refusals of packets to queue pairs that do not exist are kept
// apart, so that forged ones do not push out others. Packets of iWARP are not recorded.
func (d *Device) WriteRecord(w io.Writer) error {
	all, lost, now := d.local.Records()
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "flight recorder of %v at %s: %d records, %d older ones lost\n", d.Addr(), time.Now().UTC().Format(time.RFC3339Nano), len(all), lost)
	start := now
	if len(all) > 0 {
		start = all[0].Time
	}
	for i := range all {
		fmt.Fprintln(b, all[i].Line(start))
	}
	return b.Flush()
}

// WriteRecordCapture writes the packets of the flight recorder to w as pcapng, without payload: a run
// of packets is its first one, with a comment that says how many they were. All are written as RoCE v2
// packets between the device's address and that of the queue pair's peer; if the queue pair is gone the
// peer is 0.0.0.0 or ::. Addresses of a fabric's ports stand for their LIDs.
func (d *Device) WriteRecordCapture(w io.Writer) error {
	all, _, now := d.local.Records()
	peers, wall := d.local.Peers(), time.Now()
	c, err := capture.NewWriter(w)
	if err != nil {
		return err
	}
	for i := range all {
		c.Trace(recorded(&all[i], d.local.Local(), peers[all[i].QPN], wall.Add(all[i].Time-now)))
	}
	return c.Close()
}

// recorded returns a record as an event.
func recorded(r *recorder.Record, local, peer qp.Endpoint, at time.Time) *trace.Event {
	e := &trace.Event{Time: at, QPN: r.QPN, Detail: r.Detail, Said: r.Said, From: r.From, To: r.To, WRID: r.WRID, Status: r.Status}
	switch r.Kind {
	case recorder.State:
		e.Kind = trace.State
	case recorder.Completed:
		e.Kind = trace.Completed
	case recorder.Refused:
		e.Kind = trace.Refused
	case recorder.Sent, recorder.Received:
		e.Kind = trace.Sent
		local, peer := onIP(local, peer)
		p := trace.Packet{Src: local, Dst: peer, TTL: 64}
		if r.Kind == recorder.Received {
			e.Kind, p.Src, p.Dst = trace.Received, peer, local
		}
		h := *r.Header
		h.PKey = 0xffff
		first := int(r.Bytes / r.Count)
		if r.Count > 1 {
			e.Note = fmt.Sprintf("a run of %d packets with %d bytes of payload in %v", r.Count, r.Bytes, r.Last-r.Time)
		}
		h.Pad = ib.PadLen(first)
		p.Pieces, p.Missing = [][]byte{h.Append(nil)}, first+int(h.Pad)+ib.ICRCLen
		kept := ib.BTHLen
		if r.Whole {
			kept = h.HeaderLen()
		}
		p.Missing += h.HeaderLen() - kept
		p.Pieces[0] = p.Pieces[0][:kept]
		e.Packet = p
	}
	return e
}

// onIP returns the ends of a connection as addresses of one family with the port of RoCE v2.
func onIP(local, peer qp.Endpoint) (src, dst qp.Endpoint) {
	from, to := qp.OnWire(local).Addr(), qp.OnWire(peer).Addr()
	if !to.IsValid() {
		to = netip.IPv4Unspecified()
	}
	if from.Is4() != to.Is4() {
		from, to = netip.AddrFrom16(from.As16()), netip.AddrFrom16(to.As16())
	}
	return netip.AddrPortFrom(from, ib.UDPPort), netip.AddrPortFrom(to, ib.UDPPort)
}

// KeepRecords lets the device write its flight recorder into a directory, which is made if needed, each
// time that a queue pair fails: as text (WriteRecord) and as pcapng (WriteRecordCapture), in files whose
// names have the process's number, the device's address and the queue pair's number. It waits a moment for what follows the failure,
// but not beyond Close or FlushRecords. A device writes at most 16 times: what fails later has
// usually the same cause. There is no record of a change of state that the program asked for.
func (d *Device) KeepRecords(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	k := &d.kept
	k.mu.Lock()
	k.dir = dir
	k.mu.Unlock()
	d.local.OnFailure(func(qpn uint32, _ reason.Detail) { k.failed(d, qpn) })
	return nil
}

// FlushRecords writes at once what KeepRecords has still to write, and returns the errors of writing.
func (d *Device) FlushRecords() error { return d.kept.flush() }

const (
	recordsKept   = 16                    // times that a device writes its records
	recordsSettle = 50 * time.Millisecond // for what follows a failure: the peer's answers, completions
)

// A keptRecords writes a device's records when queue pairs fail.
type keptRecords struct {
	mu      sync.Mutex
	dir     string
	closed  bool
	count   int
	err     error
	waiting *time.Timer // nil if nothing is to be written
	write   func() error

	writing sync.Mutex
}

// failed is called with a lane.
func (k *keptRecords) failed(d *Device, qpn uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting != nil || k.count == recordsKept || k.closed {
		return // several fail together
	}
	k.count++
	base := filepath.Join(k.dir, fmt.Sprintf("%d-%s-qp%06x-", os.Getpid(), fileName(d), qpn))
	k.write = func() error {
		text, name, err := create(base)
		if err != nil {
			return err
		}
		err = errors.Join(d.WriteRecord(text), text.Close())
		packets, e := os.OpenFile(name+".pcapng", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if e != nil {
			return errors.Join(err, e)
		}
		return errors.Join(err, d.WriteRecordCapture(packets), packets.Close())
	}
	k.waiting = time.AfterFunc(recordsSettle, func() { _ = k.flush() }) // Close returns the error
}

// close ends the writing: what failed until now is written.
func (k *keptRecords) close() error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	return k.flush()
}

func (k *keptRecords) flush() error {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	write := k.write
	if k.waiting != nil {
		k.waiting.Stop()
		k.waiting, k.write = nil, nil
	}
	k.mu.Unlock()
	var err error
	if write != nil {
		err = write() // takes lanes
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = errors.Join(k.err, err)
	err, k.err = k.err, nil
	return err
}

// fileName returns the device's address as a part of a file's name.
func fileName(d *Device) string {
	return strings.Map(func(r rune) rune {
		if r == ':' || r == '%' || r == '/' {
			return '-'
		}
		return r
	}, d.Addr().Addr().String())
}

// create creates the first text file with a number that is not there yet: other processes may have had the
// same number of a process. It returns the file's name without the extension.
func create(base string) (f *os.File, name string, err error) {
	for n := 1; ; n++ {
		name = fmt.Sprint(base, n)
		f, err = os.OpenFile(name+".txt", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || n == 10_000 {
			return f, name, err
		}
	}
}
