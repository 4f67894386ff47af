package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/identify"
)

// directBytes is how much data in memory of Alloc one command moves at most.
const directBytes = 1 << 20

// A Namespace is a range of blocks of a subsystem. It can be used until Close, or until its controllers are
// closed. Its methods may be called from any goroutine.
type Namespace struct {
	id    uint32
	paths []*path
	next  atomic.Uint32 // path

	// Set by the first link that has it, and the same from then on.
	about identify.Namespace
	names identify.Descriptors
	most  int // bytes of a command

	mu      sync.Mutex
	waiting []*command // for a path
	closed  bool
}

// About returns what the controller says about the namespace.
func (n *Namespace) About() identify.Namespace { return n.about }

// Descriptors returns the identifiers of the namespace.
func (n *Namespace) Descriptors() identify.Descriptors { return n.names }

// Size returns the size in bytes.
func (n *Namespace) Size() int64 { return int64(n.about.Blocks) << n.about.BlockShift }

// BlockSize returns the size of a block in bytes.
func (n *Namespace) BlockSize() int { return 1 << n.about.BlockShift }

// ReadOnly reports whether the namespace is write protected.
func (n *Namespace) ReadOnly() bool { return n.about.Attributes&1 != 0 }

// MaxCommand returns how many bytes a command moves at most: those in memory of Alloc, and others.
func (n *Namespace) MaxCommand() (registered, other int) { return n.most, min(n.most, slotBytes) }

// ReadAt reads len(b) bytes at an offset.
func (n *Namespace) ReadAt(b []byte, off int64) (int, error) {
	return n.ReadContext(context.Background(), b, off)
}

// ReadContext is ReadAt until a context ends. If b is in memory of Alloc and the controller has the
// command, it returns when the controller does not access b any more.
func (n *Namespace) ReadContext(ctx context.Context, b []byte, off int64) (int, error) {
	return n.each(ctx, capsule.Read, b, off)
}

// WriteAt writes b at an offset.
func (n *Namespace) WriteAt(b []byte, off int64) (int, error) {
	return n.WriteContext(context.Background(), b, off)
}

// WriteContext is WriteAt until a context ends, as described at ReadContext. The controller may write
// nevertheless.
func (n *Namespace) WriteContext(ctx context.Context, b []byte, off int64) (int, error) {
	return n.each(ctx, capsule.Write, b, off)
}

// Compare returns an error with the status status.CompareFailed if the namespace's bytes differ from b.
func (n *Namespace) Compare(ctx context.Context, b []byte, off int64) error {
	_, err := n.each(ctx, capsule.Compare, b, off)
	return err
}

// Flush returns when everything that was written before is on the medium.
func (n *Namespace) Flush(ctx context.Context) error {
	return n.run(ctx, capsule.Command{Opcode: capsule.Flush, NSID: n.id}, nil)
}

// WriteZeroes makes bytes zeros, and may deallocate them if mayTrim.
func (n *Namespace) WriteZeroes(ctx context.Context, off, length int64, mayTrim bool) error {
	if err := n.check(off, length); err != nil {
		return err
	}
	most := int64(1<<16) << n.about.BlockShift
	for length > 0 {
		part := min(length, most)
		cmd := n.command(capsule.WriteZeroes, off, part)
		if mayTrim {
			cmd.CDW12 |= capsule.Deallocate
		}
		if err := n.run(ctx, cmd, nil); err != nil {
			return err
		}
		off, length = off+part, length-part
	}
	return nil
}

// Trim deallocates bytes.
func (n *Namespace) Trim(ctx context.Context, off, length int64) error {
	if err := n.check(off, length); err != nil {
		return err
	}
	const most = 1<<32 - 1 // blocks of a range
	for length > 0 {
		part := min(length>>n.about.BlockShift, most)
		r := capsule.Range{LBA: uint64(off) >> n.about.BlockShift, Blocks: uint32(part)}
		cmd := capsule.Command{Opcode: capsule.DatasetManagement, NSID: n.id, CDW11: capsule.DSMDeallocate}
		if err := n.run(ctx, cmd, r.Append(nil)); err != nil {
			return err
		}
		off, length = off+part<<n.about.BlockShift, length-part<<n.about.BlockShift
	}
	return nil
}

func (n *Namespace) run(ctx context.Context, entry capsule.Command, data []byte) error {
	_, err := run(ctx, &command{entry: entry, data: data, ns: n}, n.start)
	return err
}

// check checks a range of bytes.
func (n *Namespace) check(off, length int64) error {
	if mask := int64(n.BlockSize() - 1); off&mask != 0 || length&mask != 0 || off < 0 || length < 0 {
		return fmt.Errorf("offset and length: expected multiples of %d, found %d and %d", n.BlockSize(), off, length)
	}
	return nil
}

// registered reports whether every controller has registered the memory of b.
func (n *Namespace) registered(b []byte) bool {
	for _, p := range n.paths {
		if !p.c.registered(b) {
			return false
		}
	}
	return true
}

// parallel is how many commands of one call are in flight.
const parallel = 8

// each runs a command for each part of b. It returns how many bytes were moved before the first error.
func (n *Namespace) each(ctx context.Context, o capsule.Opcode, b []byte, off int64) (int, error) {
	if err := n.check(off, int64(len(b))); err != nil {
		return 0, err
	}
	most := min(n.most, slotBytes)
	if len(b) > most && n.registered(b) {
		most = n.most
	}
	parts := (len(b) + most - 1) / most
	if parts == 1 {
		if err := n.run(ctx, n.command(o, off, int64(len(b))), b); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	errs := make([]error, parts)
	var work sync.WaitGroup
	limit := make(chan struct{}, parallel)
	for i := range parts {
		limit <- struct{}{}
		work.Go(func() {
			begin := i * most
			part := b[begin:min(begin+most, len(b))]
			errs[i] = n.run(ctx, n.command(o, off+int64(begin), int64(len(part))), part)
			<-limit
		})
	}
	work.Wait()
	for i, err := range errs {
		if err != nil {
			return i * most, errors.Join(errs...)
		}
	}
	return len(b), nil
}

// A Request is a read or write that a program submits without waiting. It may be submitted again when
// it is done.
type Request struct {
	Write   bool
	Durable bool   // of a write: on the medium when it is done
	Data    []byte // at most as long as MaxCommand says
	Offset  int64

	// Done is called once when the controller does not access Data any more, on the goroutine of a
	// queue. It must not block; it may submit requests.
	Done func(*Request)
	Err  error // set before Done is called

	c command
}

// Submit starts a request. The error says that it is wrong; then Done is not called.
func (n *Namespace) Submit(r *Request) error {
	length := len(r.Data)
	if err := n.check(r.Offset, int64(length)); err != nil {
		return err
	}
	if length == 0 || length > n.most || length > slotBytes && !n.registered(r.Data) {
		registered, other := n.MaxCommand()
		return fmt.Errorf("data of a request: expected 1 to %d bytes, in memory of Alloc %d, found %d", other, registered, length)
	}
	op := capsule.Read
	if r.Write {
		op = capsule.Write
	}
	c := &r.c
	c.entry, c.data, c.ns = n.command(op, r.Offset, int64(length)), r.Data, n
	if r.Durable && r.Write {
		c.entry.CDW12 |= capsule.ForceUnitAccess
	}
	c.mu.Lock()
	c.state, c.repeats, c.avoid, c.givenUp = waiting, 0, nil, nil
	c.mu.Unlock()
	if c.done == nil {
		c.done = func() {
			r.Err = r.c.err
			r.Done(r)
		}
	}
	n.start(c)
	return nil
}
