package target

import (
	"bytes"

	"softrdma/storage/block"
	"softrdma/storage/internal/buffers"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// needBuffer continues a task with a buffer for its data, at once or when there is one.
func (q *queue) needBuffer(t *task) {
	from, n := q.t.buffers, int(t.command.Length)
	if v := volumeOf(t.command.Namespace); v != nil {
		from = v.buffers
	} else if q.discovers() {
		from = q.t.discovery
	}
	if b, err := q.adapter.pool.Try(from, n); b != nil || err != nil {
		q.haveBuffer(t, b, err)
		return
	}
	q.work.Go(func() {
		if b, err := q.adapter.pool.Get(from, n, q.ended); b != nil || err != nil {
			q.haveBuffer(t, b, err)
		}
	})
}

// haveBuffer reads the data of a command from the host's memory, or executes it, or continues its execution.
func (q *queue) haveBuffer(t *task, b *buffers.Buffer, err error) {
	if err != nil {
		q.machine.Fail(&t.command, err)
		q.respond(t, nil)
		return
	}
	t.buffer = b
	c := &t.command
	switch {
	case c.State == controller.Work:
		q.accessBlocks(t)
		return
	case !c.Fetch():
		q.execute(t)
		return
	}
	q.post(verbs.SendWR{
		WRID: uint64(workFetch | t.number), Op: verbs.OpRead, Flags: verbs.Signaled, SGL: t.sgl(), RemoteAddr: c.SGL.Addr, RKey: c.SGL.Key,
	})
}

// sgl returns the memory of the command's data: part of the buffer, or of the backend.
func (t *task) sgl() []verbs.SGE {
	if t.buffer != nil {
		t.sge[0] = t.buffer.SGE(0, int(t.command.Length))
		return t.sge[:1]
	}
	for i, e := range t.pieces {
		t.sge[i] = t.region.SGE(int(e.Offset), int(e.Length))
	}
	return t.sge[:len(t.pieces)]
}

// data returns the memory with the command's data.
func (q *queue) data(t *task) []byte {
	if t.buffer != nil {
		return t.buffer.Bytes[:t.command.Length]
	}
	return t.command.InCapsule(q.capsuleOf(t.slot))
}

// execute executes a command whose data has arrived.
func (q *queue) execute(t *task) {
	c := &t.command
	q.machine.Execute(t.began, c, q.data(t))
	switch c.State {
	case controller.Held:
		if err := q.postReceive(t.slot); err != nil {
			q.end(err)
		}
		q.finish(t)
	case controller.Work:
		q.accessBlocks(t)
	default:
		q.respond(t, nil)
	}
}

// accessBlocks accesses the blocks of a command.
func (q *queue) accessBlocks(t *task) {
	c := &t.command
	v := volumeOf(c.Access.Namespace)
	switch {
	case v == nil || !v.enter():
		q.respond(t, &controller.Refusal{Why: controller.NamespaceUnknown, Status: status.InvalidNamespace | status.DoNotRetry, Have: uint64(c.NSID)})
	case t.buffer == nil && c.Access.Kind == controller.ReadBlocks:
		if q.pin(t, v) {
			q.respond(t, nil)
			return
		}
		v.leave()
		q.needBuffer(t)
	case v.backend.Blocks():
		q.work.Go(func() { q.access(t, v) })
	default:
		q.access(t, v)
	}
}

// A pinned is a volume and the region of its memory.
type pinned struct {
	volume *volume
	region *verbs.MR
}

// pin finds what a command reads in the backend's memory, where it stays until the response has completed.
// It reports false if the data must be copied. The task leaves the volume when it ends.
func (q *queue) pin(t *task, v *volume) bool {
	// No task is in a volume whose region is deregistered.
	p := q.pinned.Load()
	if p == nil || p.volume != v {
		mr, err := q.adapter.region(v)
		if err != nil {
			return false
		}
		p = &pinned{v, mr}
		q.pinned.Store(p)
	}
	a := &t.command.Access
	pieces, ok := v.resident.Pin(a.Offset, a.Length, t.room[:0])
	if ok {
		t.region, t.pieces = p.region, pieces
		t.volume.Store(v)
	}
	return ok
}

// unpin ends pin.
func (t *task) unpin() {
	v := t.volume.Load()
	if v == nil {
		return
	}
	a := &t.command.Access
	v.resident.Unpin(a.Offset, a.Length, t.pieces)
	t.region, t.pieces = nil, nil
	t.volume.Store(nil)
	v.leave()
}

// access accesses the blocks of a command, and responds.
func (q *queue) access(t *task, v *volume) {
	err := access(v.backend, &t.command.Access, q.data(t))
	v.leave()
	q.respond(t, err)
}

// access accesses the blocks of a command.
func access(b block.Backend, a *controller.Access, data []byte) (err error) {
	switch a.Kind {
	case controller.ReadBlocks:
		err = block.ReadFull(b, data, a.Offset)
	case controller.WriteBlocks:
		_, err = b.WriteAt(data, a.Offset)
	case controller.CompareBlocks:
		err = compare(b, a, data)
	case controller.ZeroBlocks:
		err = b.WriteZeroes(a.Offset, a.Length, a.MayTrim)
	case controller.TrimBlocks:
		for _, e := range a.Extents {
			if err = b.Trim(e.Offset, e.Length); err != nil {
				break
			}
		}
	case controller.FlushBlocks:
		err = b.Flush()
	}
	if err == nil && a.Durable {
		err = b.Flush()
	}
	return err
}

// compareLength is how much a compare command reads at once, in bytes: at least one block.
const compareLength = 64 << 10

// compare compares blocks with data.
func compare(b block.Backend, a *controller.Access, data []byte) error {
	found := make([]byte, min(len(data), compareLength))
	for done := 0; done < len(data); {
		part := found[:min(len(found), len(data)-done)]
		if err := block.ReadFull(b, part, a.Offset+int64(done)); err != nil {
			return err
		}
		if want := data[done : done+len(part)]; !bytes.Equal(part, want) {
			at := 0
			for part[at] == want[at] {
				at++
			}
			a.DataDiffers, a.Differs = true, int64(done+at)
			return nil
		}
		done += len(part)
	}
	return nil
}
