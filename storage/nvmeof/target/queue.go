package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/internal/buffers"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/verbs"
)

// extraSends is how many responses to held commands may be in the send queue.
const extraSends = 32

// batch is how many completions a queue handles at once. Host and target work at the same time only if neither
// takes all commands in flight at once.
const batch = 16

// The kinds of work requests, in the upper half of their identifiers. The lower half is the number of a
// receive or of a task.
const (
	workReceive = iota << 32
	workFetch
	workRespond
	workEvent
	workKind = 0xff << 32
)

// A queue is a host's connection. One goroutine handles its completions.
type queue struct {
	t       *Target
	dev     *verbs.Device
	adapter *adapter
	peer    netip.AddrPort
	machine *controller.Queue
	since   time.Time // when the host asked for the connection

	entries, capsule int         // number and length of receives
	admitted         atomic.Bool // the host uses it for a disk
	receives         *verbs.MR
	cq               *verbs.CQ
	qp               *verbs.QP
	conn             *rdmacm.Conn

	once  sync.Once
	ended chan struct{} // closed by end
	why   error         // set before ended is closed

	posted, completed atomic.Uint64 // signaled send requests
	seen              uint64        // completed at the time moved, both of the goroutine that looks for stalls
	moved             time.Time

	recvs   []verbs.RecvWR // of each receive
	sending sync.Mutex     // of out, held while requests are posted
	out     outbox

	pinned atomic.Pointer[pinned] // the last region that a read was sent from

	done  []int   // tasks that end, of the goroutine that handles completions
	own   []*task // free tasks, of the goroutine that handles completions
	mu    sync.Mutex
	tasks []*task        // only that goroutine changes it
	free  []*task        // by other goroutines
	work  sync.WaitGroup // goroutines that access backends or wait for buffers
}

// maxPieces is the number of pieces of memory that the data of one response is sent from.
const maxPieces = 4

// A task is a command in progress. It ends when its response has completed.
type task struct {
	number  int
	command controller.Command
	slot    int // of its receive, posted again before the response
	began   time.Time
	lost    bool            // a rule of faults loses its completion
	buffer  *buffers.Buffer // nil if the command has no data or has it in its capsule or in pieces

	// What the command reads if it is in the backend's memory. The volume is nil otherwise. Any goroutine may read it.
	volume atomic.Pointer[volume]
	region *verbs.MR
	pieces []block.Extent

	// Memory of the requests that are posted for it.
	sge    [maxPieces]verbs.SGE
	room   [maxPieces]block.Extent // of pieces
	answer [capsule.CompletionLen]byte
}

func (q *queue) maxTasks() int { return 2*q.entries + 2 }

// end ends the connection for a reason. The first call counts.
func (q *queue) end(why error) {
	q.once.Do(func() {
		q.why = why
		close(q.ended)
	})
}

// event returns an event of the queue.
func (q *queue) event(kind EventKind, err error) Event {
	n := q.machine.Name()
	return Event{Kind: kind, Peer: q.peer, Controller: n.Controller, Queue: n.Queue, Host: n.Host, Err: err}
}

// admit notes when the queue is that of a subsystem with disks, and its host authenticated if it must be.
func (q *queue) admit() {
	if q.machine.Ready() && !q.discovers() && !q.admitted.Swap(true) {
		q.t.guests.Leave(q.peer.Addr())
	}
}

// discovers reports whether the queue is that of the discovery service.
func (q *queue) discovers() bool { return q.machine.Name().Subsystem == logpage.DiscoveryNQN }

// serve accepts the request and handles completions until the connection ends. It returns why it has
// ended, nil if the host has ended it.
func (q *queue) serve(r *rdmacm.Request) (err error) {
	ctx, cancel := context.WithCancel(q.t.ctx)
	defer cancel()
	accept, done := context.WithTimeout(ctx, acceptTime)
	defer done()
	if q.conn, err = r.Accept(accept, rdmacm.ConnParam{PrivateData: fabrics.Reply{Receives: uint16(q.entries)}.Append(nil)}); err != nil {
		return err
	}
	q.t.connections.Add(1)
	go func() {
		select {
		case <-q.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	var wcs [batch]verbs.WC
	for ctx.Err() == nil {
		n, err := q.cq.Poll(wcs[:])
		if err != nil {
			q.end(err)
			break
		}
		if n == 0 {
			if err := q.cq.Wait(ctx); err != nil && ctx.Err() == nil {
				q.end(err)
				break
			}
			continue
		}
		q.gather()
		now := time.Now()
		for i := range wcs[:n] {
			if err := q.handle(now, &wcs[i]); err != nil {
				q.end(err)
				break
			}
		}
		q.scatter()
	}
	q.end(errClosed)
	return q.reason()
}

// reason returns why the connection has ended, nil if the host has disconnected.
func (q *queue) reason() error {
	var failed *verbs.CompletionError
	if errors.As(q.why, &failed) && failed.Status == verbs.WRFlushErr {
		select {
		case <-q.conn.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
	return q.why
}

// handle handles a completion. An error ends the connection.
func (q *queue) handle(now time.Time, wc *verbs.WC) error {
	if wc.Status != verbs.Success {
		return wc.Err()
	}
	number := int(wc.WRID &^ workKind)
	kind := wc.WRID & workKind
	if kind == workReceive {
		return q.received(now, number, int(wc.ByteLen))
	}
	q.completed.Add(1)
	switch kind {
	case workFetch:
		q.t.fromHosts.Add(uint64(wc.ByteLen))
		q.execute(q.task(number))
	case workRespond:
		q.responded(number)
	}
	return nil
}

// responded finishes the tasks whose responses have completed: up to that of a number.
func (q *queue) responded(number int) {
	q.sending.Lock()
	n := slices.Index(q.out.sent, number) + 1
	q.done = append(q.done[:0], q.out.sent[:n]...)
	q.out.sent = slices.Delete(q.out.sent, 0, n)
	q.sending.Unlock()
	for _, number := range q.done {
		t := q.task(number)
		q.clean(t)
		q.own = append(q.own, t)
	}
}

// stalled reports whether no send request has completed for stallTime, although some are posted.
func (q *queue) stalled(now time.Time) bool {
	if n := q.completed.Load(); n != q.seen || n == q.posted.Load() || q.moved.IsZero() {
		q.seen, q.moved = n, now
		return false
	}
	return now.Sub(q.moved) > stallTime
}

// task returns the task of a number. The goroutine that handles completions calls it.
func (q *queue) task(number int) *task { return q.tasks[number] }

// newTask returns a free task, nil if the host has more commands than it may. The goroutine that handles completions
// calls it.
func (q *queue) newTask() *task {
	if last := len(q.own) - 1; last >= 0 {
		t := q.own[last]
		q.own = q.own[:last]
		return t
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := len(q.free) - 1; last >= 0 {
		t := q.free[last]
		q.free = q.free[:last]
		return t
	}
	if len(q.tasks) == q.maxTasks() {
		return nil
	}
	t := &task{number: len(q.tasks)}
	q.tasks = append(q.tasks, t)
	return t
}

// clean gives the memory of a task back.
func (q *queue) clean(t *task) {
	if t.buffer != nil {
		q.adapter.pool.Put(t.buffer)
		t.buffer = nil
	}
	t.unpin()
}

// finish ends a task that sends no response.
func (q *queue) finish(t *task) {
	q.clean(t)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, t)
}

func (q *queue) postReceive(slot int) error {
	return q.qp.PostRecv(q.recvs[slot : slot+1]...)
}

// received begins the command of a capsule.
func (q *queue) received(now time.Time, slot, n int) error {
	t := q.newTask()
	if t == nil {
		return fmt.Errorf("the host has more than %d commands in a queue of %d entries", q.maxTasks(), q.entries)
	}
	t.slot, t.began = slot, now
	q.t.commands.Add(1)
	c := &t.command
	if err := q.machine.Begin(now, c, q.capsuleOf(slot)[:n]); err != nil {
		return err
	}
	t.lost = false
	if c.State == controller.Done || !q.dev.Faults().OnCommands() || !q.inject(t) {
		q.begin(t)
	}
	return nil
}

// begin moves the data of a command, executes it, or answers that it is refused.
func (q *queue) begin(t *task) {
	c := &t.command
	switch {
	case c.State == controller.Done:
		q.respond(t, nil)
	case c.Length == 0 || c.SGL.Kind == capsule.SGLOffset || c.Opcode == capsule.Read && resident(c.Namespace):
		q.execute(t)
	default:
		q.needBuffer(t)
	}
}

func (q *queue) capsuleOf(slot int) []byte {
	return q.receives.Bytes()[slot*q.capsule : (slot+1)*q.capsule]
}

// cleanEnd returns nil if the connection has ended already.
func cleanEnd(err error) error {
	if errors.Is(err, rdmacm.ErrDisconnected) || errors.Is(err, rdmacm.ErrClosed) {
		return nil
	}
	return err
}

// close releases everything of the queue.
func (q *queue) close() (err error) {
	q.end(errClosed)
	if q.conn != nil {
		err = cleanEnd(q.conn.Disconnect())
	}
	q.work.Wait()
	switch {
	case q.conn != nil:
		err = errors.Join(err, q.conn.Close())
	case q.qp != nil:
		err = errors.Join(err, q.qp.Destroy())
	}
	// The device does not access the memory any more.
	for _, t := range q.tasks {
		if t.buffer != nil {
			q.adapter.pool.Put(t.buffer)
		}
		t.unpin()
	}
	if q.cq != nil {
		err = errors.Join(err, q.cq.Destroy())
	}
	if q.receives != nil {
		err = errors.Join(err, q.receives.Deregister())
	}
	return errors.Join(err, q.t.release(q.dev, q.adapter))
}
