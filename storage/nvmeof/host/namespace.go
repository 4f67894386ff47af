package host

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/identify"
)

// A Namespace is a range of blocks of a subsystem. Its methods may be called from any goroutine.
type Namespace struct {
	c     *Controller
	id    uint32
	about identify.Namespace
	most  int // bytes of a command
}

// Namespace returns a namespace of the subsystem.
func (c *Controller) Namespace(ctx context.Context, id uint32) (*Namespace, error) {
	b := make([]byte, identify.Len)
	if err := c.identify(ctx, identify.CNSNamespace, id, b); err != nil {
		return nil, err
	}
	about, err := identify.ParseNamespace(b)
	if err != nil {
		return nil, err
	}
	if about.Blocks == 0 {
		return nil, fmt.Errorf("%s has no namespace %d", c.cfg.Subsystem, id)
	}
	n := &Namespace{c: c, id: id, about: about, most: slotBytes}
	if shift := int(c.about.MaxTransfer); shift > 0 && shift < bits.Len(slotBytes)-13 {
		n.most = 4096 << shift
	}
	if n.BlockSize() > n.most {
		return nil, fmt.Errorf("namespace %d: expected blocks of at most %d bytes, found %d", id, n.most, n.BlockSize())
	}
	return n, nil
}

// About returns what the controller says about the namespace.
func (n *Namespace) About() identify.Namespace { return n.about }

// Size returns the size in bytes.
func (n *Namespace) Size() int64 { return int64(n.about.Blocks) << n.about.BlockShift }

// BlockSize returns the size of a block in bytes.
func (n *Namespace) BlockSize() int { return 1 << n.about.BlockShift }

// ReadAt reads len(b) bytes at an offset.
func (n *Namespace) ReadAt(b []byte, off int64) (int, error) {
	return n.ReadContext(context.Background(), b, off)
}

// ReadContext is ReadAt until a context ends.
func (n *Namespace) ReadContext(ctx context.Context, b []byte, off int64) (int, error) {
	return n.each(ctx, capsule.Read, b, off)
}

// WriteAt writes b at an offset.
func (n *Namespace) WriteAt(b []byte, off int64) (int, error) {
	return n.WriteContext(context.Background(), b, off)
}

// WriteContext is WriteAt until a context ends.
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
	_, err := n.run(ctx, capsule.Command{Opcode: capsule.Flush, NSID: n.id}, nil)
	return err
}

// WriteZeroes makes bytes zeros, and may deallocate them.
func (n *Namespace) WriteZeroes(ctx context.Context, off, length int64) error {
	most := int64(1<<16) << n.about.BlockShift
	for length > 0 {
		part := min(length, most)
		cmd := n.command(capsule.WriteZeroes, off, part)
		cmd.CDW12 |= capsule.Deallocate
		if _, err := n.run(ctx, cmd, nil); err != nil {
			return err
		}
		off, length = off+part, length-part
	}
	return nil
}

// Trim deallocates bytes.
func (n *Namespace) Trim(ctx context.Context, off, length int64) error {
	r := capsule.Range{LBA: uint64(off) >> n.about.BlockShift, Blocks: uint32(length >> n.about.BlockShift)}
	_, err := n.run(ctx, capsule.Command{Opcode: capsule.DatasetManagement, NSID: n.id, CDW11: capsule.DSMDeallocate}, r.Append(nil))
	return err
}

// run runs a command on one of the I/O queues in turn.
func (n *Namespace) run(ctx context.Context, cmd capsule.Command, data []byte) (uint64, error) {
	io := n.c.io
	return io[int(n.c.next.Add(1))%len(io)].do(ctx, cmd, data)
}

func (n *Namespace) command(o capsule.Opcode, off, length int64) capsule.Command {
	cmd := capsule.Command{Opcode: o, NSID: n.id, CDW12: uint32(length>>n.about.BlockShift) - 1}
	cmd.SetLBA(uint64(off) >> n.about.BlockShift)
	return cmd
}

// parallel is how many commands of one call are in flight.
const parallel = 8

// each runs a command for each part of b. It returns how many bytes were moved before the first error.
func (n *Namespace) each(ctx context.Context, o capsule.Opcode, b []byte, off int64) (int, error) {
	mask := int64(n.BlockSize() - 1)
	if off&mask != 0 || int64(len(b))&mask != 0 || off < 0 {
		return 0, fmt.Errorf("offset and length: expected multiples of %d, found %d and %d", n.BlockSize(), off, len(b))
	}
	parts := (len(b) + n.most - 1) / n.most
	if parts == 1 {
		if _, err := n.run(ctx, n.command(o, off, int64(len(b))), b); err != nil {
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
			begin := i * n.most
			part := b[begin:min(begin+n.most, len(b))]
			_, errs[i] = n.run(ctx, n.command(o, off+int64(begin), int64(len(part))), part)
			<-limit
		})
	}
	work.Wait()
	for i, err := range errs {
		if err != nil {
			return i * n.most, errors.Join(errs...)
		}
	}
	return len(b), nil
}
