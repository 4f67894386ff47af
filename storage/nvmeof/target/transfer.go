package target

import (
	"bytes"
	"time"

	"softrdma/storage/block"
	"softrdma/storage/internal/buffers"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/capsule"
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

// haveBuffer reads the data of a command from the host's memory, or executes it.
func (q *queue) haveBuffer(t *task, b *buffers.Buffer, err error) {
	if err != nil {
		q.machine.Fail(&t.command, err)
		q.respond(t, nil)
		return
	}
	t.buffer = b
	c := &t.command
	if !c.Fetch() {
		q.execute(t)
		return
	}
	q.post(verbs.SendWR{
		WRID: uint64(workFetch | t.number), Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{t.sge()}, RemoteAddr: c.SGL.Addr, RKey: c.SGL.Key,
	})
}

// sge returns the part of the buffer that the command uses.
func (t *task) sge() verbs.SGE {
	return t.buffer.SGE(0, int(t.command.Length))
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
	q.machine.Execute(time.Now(), c, q.data(t))
	switch c.State {
	case controller.Held:
		if err := q.postReceive(t.slot); err != nil {
			q.end(err)
		}
		q.finish(t)
	case controller.Work:
		v := volumeOf(c.Access.Namespace)
		switch {
		case v == nil || !v.enter():
			q.respond(t, &controller.Refusal{Why: controller.NamespaceUnknown, Status: status.InvalidNamespace | status.DoNotRetry, Have: uint64(c.NSID)})
		case v.backend.Blocks():
			q.work.Go(func() { q.access(t, v) })
		default:
			q.access(t, v)
		}
	default:
		q.respond(t, nil)
	}
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

// respond sends the data that a command returns and its completion, in one order.
func (q *queue) respond(t *task, err error) {
	c := &t.command
	done := q.machine.Complete(c, err)
	if c.Opcode == capsule.OpFabrics {
		q.admit()
	}
	switch {
	case c.Refusal != nil:
		q.t.refused.Add(1)
		q.t.cfg.Events(q.event(Refused, c.Refusal))
	case c.Failed != nil:
		q.t.refused.Add(1)
		q.t.cfg.Events(q.event(Refused, c.Failed))
	case c.Opcode == capsule.OpFabrics && c.Fabrics() == capsule.FabricsConnect:
		q.t.cfg.Events(q.event(Connected, nil))
	}
	// The host may send its next command as soon as it has the completion.
	if err := q.postReceive(t.slot); err != nil {
		q.end(err)
		return
	}
	if t.lost {
		q.finish(t)
		return
	}
	var b [capsule.CompletionLen]byte
	done.Put(b[:])
	wrs := make([]verbs.SendWR, 0, 2)
	if c.Return() {
		q.t.toHosts.Add(uint64(c.Length))
		wrs = append(wrs, verbs.SendWR{
			WRID: uint64(workRespond | t.number), Op: verbs.OpWrite, SGL: []verbs.SGE{t.sge()}, RemoteAddr: c.SGL.Addr, RKey: c.SGL.Key,
		})
	}
	send := verbs.SendWR{WRID: uint64(workRespond | t.number), Op: verbs.OpSend, Flags: verbs.Signaled, Inline: b[:]}
	// The key of a refused command may not be one.
	if c.Refusal == nil && c.Length > 0 && c.SGL.Kind == capsule.SGLKeyedInvalidate {
		send.Op, send.InvalidateKey = verbs.OpSendInv, c.SGL.Key
	}
	q.post(append(wrs, send)...)
}

// held sends the completion of a command that was held.
func (q *queue) held(done capsule.Completion) {
	var b [capsule.CompletionLen]byte
	done.Put(b[:])
	q.post(verbs.SendWR{WRID: workEvent, Op: verbs.OpSend, Flags: verbs.Signaled, Inline: b[:]})
}

// post posts requests, of which the last is signaled. A failure ends the connection. Those of one batch
// of completions are posted together.
func (q *queue) post(wrs ...verbs.SendWR) {
	q.posted.Add(1)
	q.sending.Lock()
	defer q.sending.Unlock()
	if q.gathers {
		q.gathered = append(q.gathered, wrs...)
		return
	}
	if err := q.qp.PostSend(wrs...); err != nil {
		q.end(err)
	}
}

// gather makes post gather requests.
func (q *queue) gather() {
	q.sending.Lock()
	q.gathers = true
	q.sending.Unlock()
}

// scatter posts the requests that were gathered.
func (q *queue) scatter() {
	q.sending.Lock()
	defer q.sending.Unlock()
	q.gathers = false
	if len(q.gathered) == 0 {
		return
	}
	if err := q.qp.PostSend(q.gathered...); err != nil {
		q.end(err)
	}
	clear(q.gathered)
	q.gathered = q.gathered[:0]
}
