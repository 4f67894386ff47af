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
// lock guards it.
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

// respond sends the data that a command returns and its completion, in one order.
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
	wrs := t.wrs[:0]
	if c.Return() {
		q.t.toHosts.Add(uint64(c.Length))
		wrs = append(wrs, verbs.SendWR{
			WRID: uint64(workRespond | t.number), Op: verbs.OpWrite, SGL: t.sgl(), RemoteAddr: c.SGL.Addr, RKey: c.SGL.Key,
		})
	}
	done.Put(t.answer[:])
	send := verbs.SendWR{WRID: uint64(workRespond | t.number), Op: verbs.OpSend, Flags: verbs.Signaled, Inline: t.answer[:]}
	// The key of a refused command may not be one.
	if c.Refusal == nil && c.Length > 0 && c.SGL.Kind == capsule.SGLKeyedInvalidate {
		send.Op, send.InvalidateKey = verbs.OpSendInv, c.SGL.Key
	}
	q.answer(t, append(wrs, send))
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
	q.post([]verbs.SendWR{{WRID: workEvent, Op: verbs.OpSend, Flags: verbs.Signaled, Inline: b[:]}})
}

// answer posts the receive of a task again, and then its response. Short data of a batch's commands goes
// before all their responses: packets of one length travel together.
func (q *queue) answer(t *task, wrs []verbs.SendWR) {
	q.sending.Lock()
	defer q.sending.Unlock()
	o := &q.out
	if !o.open {
		if err := q.postReceive(t.slot); err != nil {
			q.end(err)
			return
		}
		q.send(wrs)
		return
	}
	o.receives = append(o.receives, q.recvs[t.slot])
	if move, send := wrs[:len(wrs)-1], wrs[len(wrs)-1]; t.command.Length <= shortWrite {
		o.moves, o.answers = append(o.moves, move...), append(o.answers, send)
	} else {
		o.moves = append(o.moves, wrs...)
	}
}

// post posts requests, of which the last is signaled. A failure ends the connection.
func (q *queue) post(wrs []verbs.SendWR) {
	q.sending.Lock()
	defer q.sending.Unlock()
	if q.out.open {
		q.out.moves = append(q.out.moves, wrs...)
		return
	}
	q.send(wrs)
}

// send posts requests. The caller has the sending lock.
func (q *queue) send(wrs []verbs.SendWR) {
	q.posted.Add(uint64(q.out.note(wrs)))
	if err := q.qp.PostSend(wrs...); err != nil {
		q.end(err)
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
	o := &q.out
	o.open = false
	if len(o.receives) > 0 {
		if err := q.qp.PostRecv(o.receives...); err != nil {
			q.end(err)
		}
	}
	o.combine()
	if all := append(o.moves, o.answers...); len(all) > 0 {
		q.send(all)
		clear(all)
		o.moves = all[:0]
	}
	clear(o.answers)
	o.receives, o.answers = o.receives[:0], o.answers[:0]
}
