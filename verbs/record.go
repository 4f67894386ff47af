package verbs

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/recordfile"
)

// WriteRecord writes the device's flight recorder as text: the headers of the last packets, the last
// refusals, changes of state and failed completions, the oldest first. Every device keeps them, without
// payload: for each lane the last 256 runs of packets, of which one is any number of packets in sequence
// with the same opcode, and 64 others. Refusals of packets to queue pairs that do not exist are kept
// apart, so that forged ones do not push out others. Packets of iWARP are not recorded.
func (d *Device) WriteRecord(w io.Writer) error { return d.recording().WriteText(w) }

// WriteRecordCapture writes the packets of the flight recorder to w as pcapng, without payload: a run
// of packets is its first one, with a comment that says how many they were. All are written as RoCE v2
// packets between the device's address and that of the queue pair's peer, which is 0.0.0.0 or :: if it is
// not known. Addresses of a fabric's ports stand for their LIDs.
func (d *Device) WriteRecordCapture(w io.Writer) error { return d.recording().WriteCapture(w) }

func (d *Device) recording() *recordfile.Recording {
	return &recordfile.Recording{Snapshot: d.local.Records(), Addr: d.Addr(), Local: d.local.Local()}
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
	if err := d.kept.into(dir); err != nil {
		return err
	}
	d.local.OnFailure(func(qpn uint32, _ reason.Detail) { d.kept.failed(d, qpn) })
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
	tell func(dir string) error // the daemon, which writes them if this process crashes; nil if there is none

	mu      sync.Mutex
	dir     string
	closed  bool
	count   int
	err     error
	waiting *time.Timer // nil if nothing is to be written
	write   func() error

	writing sync.Mutex
}

// into sets the directory.
func (k *keptRecords) into(dir string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir = dir; k.tell == nil || k.closed {
		return nil
	}
	return k.tell(dir)
}

// failed is called with a lane.
func (k *keptRecords) failed(d *Device, qpn uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting != nil || k.count == recordsKept || k.closed {
		return // several fail together
	}
	k.count++
	dir := k.dir
	k.write = func() error {
		into, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		r := d.recording()
		if err = r.Save(into, os.Getpid(), qpn); err == nil {
			d.local.RecordsSaved(r.Made)
		}
		return errors.Join(err, into.Close())
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
