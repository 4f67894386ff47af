package controller

import (
	"errors"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/reserve"
	"softrdma/storage/nvmeof/wire/status"
)

// A Kind is what a command does with blocks.
type Kind uint8

// The kinds.
const (
	ReadBlocks    Kind = 1 + iota // to the command's data
	WriteBlocks                   // from the command's data
	CompareBlocks                 // with the command's data
	ZeroBlocks
	TrimBlocks // each of Access.Extents
	FlushBlocks
)

// An Extent is a range of bytes of a namespace.
type Extent struct{ Offset, Length int64 }

// An Access is what the transport does for a command. The extent lies in the namespace.
type Access struct {
	Kind      Kind
	Namespace *Namespace
	Extent
	Extents     []Extent // to trim
	Durable     bool     // the data must be on the medium before the command completes
	MayTrim     bool     // zeros may be made by deallocating
	Differs     int64    // to be set before Complete if the data of a compare differs: at which byte
	DataDiffers bool
}

// Blocks of a command.
func (q *Queue) blockLength(c *Command) (uint64, *Refusal) {
	c.Namespace = q.controller.sub.find(c.NSID)
	switch c.Opcode {
	case capsule.Read, capsule.Write, capsule.Compare:
		if c.Namespace == nil {
			return 0, refuse(NamespaceUnknown, 0, uint64(c.NSID))
		}
		return uint64(c.Blocks()) * uint64(c.Namespace.Block), nil
	case capsule.DatasetManagement:
		return uint64(c.CDW10&0xff+1) * capsule.RangeLen, nil
	case capsule.ReservationRegister, capsule.ReservationAcquire:
		return reserve.ReservationKeysLen, nil
	case capsule.ReservationRelease:
		return reserve.ReservationKeyLen, nil
	case capsule.ReservationReport:
		return (uint64(c.CDW10) + 1) * 4, nil
	case capsule.Flush, capsule.WriteZeroes:
		return 0, nil
	}
	return 0, refuse(OpcodeUnknown, 0, uint64(c.Opcode))
}

// block decides which blocks a command accesses.
func (q *Queue) block(c *Command, data []byte) *Refusal {
	if !q.controller.ready() { // since Begin: what the host had registered has ended
		return refuse(NotReady, 0, uint64(q.controller.cc))
	}
	n := q.controller.sub.find(c.NSID)
	if n == nil || n != c.Namespace { // removed since Begin, and perhaps replaced
		return refuse(NamespaceUnknown, 0, uint64(c.NSID))
	}
	if r := q.usable(n); r != nil {
		return r
	}
	if c.reserves() {
		return q.reserve(c, n, data)
	}
	c.Access = Access{Namespace: n}
	a := &c.Access
	writes := true
	switch c.Opcode {
	case capsule.Read:
		a.Kind, writes = ReadBlocks, false
	case capsule.Compare:
		a.Kind, writes = CompareBlocks, false
	case capsule.Flush:
		a.Kind, writes = FlushBlocks, false
	case capsule.Write:
		a.Kind, a.Durable = WriteBlocks, c.CDW12&capsule.ForceUnitAccess != 0
	case capsule.WriteZeroes:
		a.Kind, a.Durable, a.MayTrim = ZeroBlocks, c.CDW12&capsule.ForceUnitAccess != 0, c.CDW12&capsule.Deallocate != 0
	case capsule.DatasetManagement:
		a.Kind = TrimBlocks
	}
	// Flush belongs to the commands that write (base 2.0, 8.19.1).
	if reads := a.Kind == ReadBlocks || a.Kind == CompareBlocks; !n.reservation.allows(q.controller.reserver(), !reads) {
		return refuse(ReservationConflict, 0, uint64(n.ID))
	}
	if writes && n.ReadOnly {
		return refuse(NamespaceProtected, 0, uint64(n.ID))
	}
	switch a.Kind {
	case FlushBlocks:
	case TrimBlocks:
		return q.ranges(c, n, data)
	default:
		e, r := n.extent(c.LBA(), uint64(c.Blocks()))
		if r != nil {
			return r
		}
		a.Extent = e
	}
	c.State = Work
	return nil
}

// usable refuses a namespace whose group this controller cannot reach.
func (q *Queue) usable(n *Namespace) *Refusal {
	state := q.controller.sub.group(n.Group).State
	if state == logpage.ANAOptimized || state == logpage.ANANonOptimized {
		return nil
	}
	r := &Refusal{Why: PathUnusable, Have: uint64(state)}
	switch state {
	case logpage.ANALost:
		r.Status = status.ANAPersistentLoss
	case logpage.ANAStateChanging:
		r.Status = status.ANATransition
	default:
		r.Status = status.ANAInaccessible
	}
	return r
}

// extent returns the bytes of blocks of the namespace.
func (n *Namespace) extent(lba, blocks uint64) (Extent, *Refusal) {
	all := n.blocks()
	if lba >= all || blocks > all-lba {
		return Extent{}, refuse(BlocksOutOfRange, all, lba+blocks-1)
	}
	return Extent{int64(lba) * int64(n.Block), int64(blocks) * int64(n.Block)}, nil
}

// ranges decides which blocks dataset management deallocates. Its other attributes are hints.
func (q *Queue) ranges(c *Command, n *Namespace, data []byte) *Refusal {
	if c.CDW11&capsule.DSMDeallocate == 0 {
		return nil
	}
	for ; len(data) >= capsule.RangeLen; data = data[capsule.RangeLen:] {
		d, err := capsule.ParseRange(data)
		if err != nil || d.Blocks == 0 {
			continue
		}
		e, r := n.extent(d.LBA, uint64(d.Blocks))
		if r != nil {
			return r
		}
		c.Access.Extents = append(c.Access.Extents, e)
	}
	c.State = Work
	return nil
}

// worked notes how the access of a command has ended.
func (q *Queue) worked(c *Command, err error) {
	c.State = Done
	sub, a := q.controller.sub, &c.Access
	switch {
	case err != nil:
		q.refuse(c, failure(a.Kind, err))
	case a.DataDiffers:
		q.refuse(c, refuse(DataDiffers, 0, uint64(a.Offset+a.Differs)))
	case a.Kind == ReadBlocks:
		sub.traffic.Reads++
		sub.traffic.BytesRead += uint64(a.Length)
	case a.Kind == WriteBlocks:
		sub.traffic.Writes++
		sub.traffic.BytesWritten += uint64(a.Length)
	}
}

// failure returns the refusal for a transport's or backend's error, which may be a *Refusal. The
// backend may choose the status by a *status.Error.
func failure(kind Kind, err error) *Refusal {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r
	}
	r := &Refusal{Why: BackendFailed, Status: status.WriteFault, Err: err}
	if kind == ReadBlocks || kind == CompareBlocks {
		r.Status = status.ReadError
	}
	if chosen := (*status.Error)(nil); errors.As(err, &chosen) {
		r.Status = chosen.Status
	}
	return r
}
