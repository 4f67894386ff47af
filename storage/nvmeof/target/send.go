package target

import (
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/verbs"
)

// shortWrite is the length in bytes up to which the data of a batch's commands goes before all their
// responses.
const shortWrite = 16 << 10

// An outbox has the requests of one batch of completions, which are posted together. The queue's sending
// lock guards it. Its memory is used again, and not cleared: it only refers to tasks of the queue.
type outbox struct {
	open     bool
	receives []verbs.RecvWR // posted before the responses, after which the host sends further commands
	moves    []verbs.SendWR
	answers  []verbs.SendWR // follow all moves
	sent     []int          // tasks whose responses are posted and have not completed, in their order
}

// note notes the responses among requests that are about to be posted. It returns how many requests are signaled.
func (o *outbox) note(wrs []verbs.SendWR) (signaled int) {
	for i := range wrs {
		wr := &wrs[i]
		if wr.Flags&verbs.Signaled != 0 {
			signaled++
		}
		if wr.WRID&workKind == workRespond && wr.Op != verbs.OpWrite {
			o.sent = append(o.sent, int(wr.WRID&^workKind))
		}
	}
	return signaled
}

// combine makes the last answer the only signaled one: when it has completed, so have those before it.
func (o *outbox) combine() {
	for i := range len(o.answers) - 1 {
		o.answers[i].Flags &^= verbs.Signaled
	}
}

// respond posts the receive of a task again, the data that its command returns, and its completion. Short
// data of a batch's commands goes before all their completions: packets of one length travel together.
func (q *queue) respond(t *task, err error) {
	c := &t.command
	done := q.machine.Complete(c, err)
	if c.Opcode == capsule.OpFabrics {
		q.admit()
	}
	q.report(c)
	if t.lost {
		if err := q.postReceive(t.slot); err != nil {
			q.end(err)
			return
		}
		q.finish(t)
		return
	}
	done.Put(t.answer[:])
	q.sending.Lock()
	defer q.sending.Unlock()
	o := &q.out
	o.receives = append(o.receives, q.recvs[t.slot])
	if c.Return() {
		q.t.toHosts.Add(uint64(c.Length))
		o.moves = append(o.moves, verbs.SendWR{
			WRID: uint64(workRespond | t.number), Op: verbs.OpWrite, SGL: t.sgl(), RemoteAddr: c.SGL.Addr, RKey: c.SGL.Key,
		})
	}
	send := verbs.SendWR{WRID: uint64(workRespond | t.number), Op: verbs.OpSend, Flags: verbs.Signaled, Inline: t.answer[:]}
	// The key of a refused command may not be one.
	if c.Refusal == nil && c.Length > 0 && c.SGL.Kind == capsule.SGLKeyedInvalidate {
		send.Op, send.InvalidateKey = verbs.OpSendInv, c.SGL.Key
	}
	if c.Length <= shortWrite {
		o.answers = append(o.answers, send)
	} else {
		o.moves = append(o.moves, send)
	}
	if !o.open {
		q.flush()
	}
}

// report tells the program what a command was refused for, or that a host has connected.
func (q *queue) report(c *controller.Command) {
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
}

// held sends the completion of a command that was held.
func (q *queue) held(done capsule.Completion) {
	var b [capsule.CompletionLen]byte
	done.Put(b[:])
	q.post(verbs.SendWR{WRID: workEvent, Op: verbs.OpSend, Flags: verbs.Signaled, Inline: b[:]})
}

// post posts a signaled request that is no response, at once or with those of the batch.
func (q *queue) post(wr verbs.SendWR) {
	q.sending.Lock()
	defer q.sending.Unlock()
	q.out.moves = append(q.out.moves, wr)
	if !q.out.open {
		q.flush()
	}
}

// gather makes requests wait for scatter.
func (q *queue) gather() {
	q.sending.Lock()
	q.out.open = true
	q.sending.Unlock()
}

// scatter posts the requests that were gathered.
func (q *queue) scatter() {
	q.sending.Lock()
	defer q.sending.Unlock()
	q.out.open = false
	q.flush()
}

// flush posts the requests of the outbox: receives, then the data, then the responses. A failure ends the
// connection. The caller has the sending lock.
func (q *queue) flush() {
	o := &q.out
	if len(o.receives) > 0 {
		if err := q.qp.PostRecv(o.receives...); err != nil {
			q.end(err)
		}
	}
	o.combine()
	if all := append(o.moves, o.answers...); len(all) > 0 {
		q.posted.Add(uint64(o.note(all)))
		if err := q.qp.PostSend(all...); err != nil {
			q.end(err)
		}
		o.moves = all
	}
	o.receives, o.moves, o.answers = o.receives[:0], o.moves[:0], o.answers[:0]
}
