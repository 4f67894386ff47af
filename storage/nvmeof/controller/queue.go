package controller

import (
	"errors"
	"time"

	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/status"
)

// A Queue is one connection of a host: a submission queue and its completion queue.
type Queue struct {
	subs      *Subsystems
	origin    Origin
	requested fabrics.Request
	completed func(capsule.Completion)

	controller *Controller // nil before the connect command
	number     uint16
	size       uint16 // entries
	head       uint16
	noFlow     bool
	inFlight   map[uint32]struct{} // command identifiers, in a type for which Go's maps are fast
	joined     bool                // the queue is one of the controller's
	closed     bool
	auth       *auth.Controller // nil if the host need not authenticate
}

// NewQueue returns the queue of a connection whose request CheckRequest accepted. Completed is called,
// on any goroutine, for commands that were held.
func (s *Subsystems) NewQueue(r fabrics.Request, origin Origin, completed func(capsule.Completion)) *Queue {
	return &Queue{subs: s, origin: origin, requested: r, completed: completed, inFlight: make(map[uint32]struct{})}
}

// A State says what a command waits for.
type State uint8

// The states.
const (
	Begun State = iota // Execute is next
	Work               // the transport accesses the blocks of Command.Access, and calls Complete
	Done               // the transport calls Complete
	Held               // the completion follows by the function of NewQueue
)

// A Command is a command in a queue. The transport provides its memory and may use it again after
// Complete, or when it is Held.
type Command struct {
	capsule.Command
	State   State
	Length  uint32   // bytes of data that are moved
	Access  Access   // in state Work
	Refusal *Refusal // why it has failed, nil if it has not

	// Namespace is that of a command for blocks, nil of others. It may have been removed since Begin.
	Namespace *Namespace

	result uint64
	known  bool // the identifier is in inFlight

	// Failed is why a host is not authenticated, in the command that tells it so. That command succeeds.
	Failed *Refusal
}

// Fetch reports whether the transport must read Length bytes of the host's memory at SGL before
// Execute.
func (c *Command) Fetch() bool {
	return c.State == Begun && c.ToController() && c.Length > 0 && c.SGL.Kind.Keyed()
}

// Return reports whether the transport must write Length bytes to the host's memory at SGL before it
// sends the completion.
func (c *Command) Return() bool { return c.Refusal == nil && c.ToHost() && c.Length > 0 }

// InCapsule returns the data of a command that is in its capsule.
func (c *Command) InCapsule(received []byte) []byte {
	if c.SGL.Kind != capsule.SGLOffset || c.Length == 0 {
		return nil
	}
	begin := capsule.CommandLen + int(c.SGL.Addr)
	return received[begin : begin+int(c.Length)]
}

// ErrEnd is wrapped by the error of Begin if the connection must end.
var ErrEnd = errors.New("the queue cannot continue")

// Begin parses a capsule to c and checks it. An error means that not even the command's identifier is
// known: the transport ends the connection.
func (q *Queue) Begin(now time.Time, c *Command, received []byte) error {
	q.subs.mu.Lock()
	defer q.subs.unlock()
	*c = Command{}
	cmd, err := capsule.ParseCommand(received)
	if err != nil {
		if len(received) < 4 || q.closed {
			return errors.Join(ErrEnd, err)
		}
		c.ID = uint16(received[2]) | uint16(received[3])<<8
		q.refuse(c, refuse(CapsuleShort, capsule.CommandLen, uint64(len(received))))
		return nil
	}
	c.Command = cmd
	if q.closed {
		return ErrEnd
	}
	if q.joined {
		q.controller.alive(now)
	}
	if _, used := q.inFlight[uint32(c.ID)]; used {
		q.refuse(c, refuse(CommandIDInUse, 0, uint64(c.ID)))
		return nil
	}
	q.inFlight[uint32(c.ID)] = struct{}{}
	c.known = true
	if r := q.check(c, len(received)-capsule.CommandLen); r != nil {
		q.refuse(c, r)
	}
	return nil
}

// refuse notes why a command fails.
func (q *Queue) refuse(c *Command, r *Refusal) {
	c.State, c.Refusal = Done, r
	if q.joined {
		q.controller.note(q, &c.Command, r)
		r.Status |= status.More
	}
}

// check checks what all commands have in common: state, opcode, and the length of the data.
func (q *Queue) check(c *Command, inCapsule int) *Refusal {
	if c.Flags&capsule.FlagFused != 0 {
		return refuse(FieldValue, 0, uint64(c.Flags&capsule.FlagFused))
	}
	length, r := q.dataLength(c)
	if r != nil {
		return r
	}
	return q.checkData(c, length, inCapsule)
}

// dataLength returns how many bytes of data a command has. Commands that are not supported now are
// refused.
func (q *Queue) dataLength(c *Command) (uint64, *Refusal) {
	switch {
	case q.controller == nil:
		if c.Opcode != capsule.OpFabrics || c.Fabrics() != capsule.FabricsConnect {
			return 0, refuse(NotConnected, 0, uint64(c.Opcode))
		}
		return fabrics.ConnectDataLen, nil
	case c.Opcode == capsule.OpFabrics && c.Fabrics().Authenticates():
		return q.fabricsLength(c)
	case !q.admitted():
		return 0, refuse(NotAuthenticated, 0, uint64(c.Opcode))
	case c.Opcode == capsule.OpFabrics:
		return q.fabricsLength(c)
	case !q.controller.ready():
		return 0, refuse(NotReady, 0, uint64(q.controller.cc))
	case q.number == 0:
		return q.adminLength(c)
	}
	return q.blockLength(c)
}

// checkData compares a command's data with its descriptor.
func (q *Queue) checkData(c *Command, length uint64, inCapsule int) *Refusal {
	limits := &q.subs.limits
	if length > uint64(limits.MaxTransfer) {
		return refuse(TransferTooLong, uint64(limits.MaxTransfer), length)
	}
	c.Length = uint32(length)
	if length == 0 {
		if c.SGL.Length != 0 {
			return refuse(SGLLength, 0, uint64(c.SGL.Length))
		}
		return nil
	}
	switch c.SGL.Kind {
	case capsule.SGLKeyed, capsule.SGLKeyedInvalidate:
	case capsule.SGLOffset:
		if !c.ToController() {
			return refuse(SGLType, 0, uint64(c.SGL.Kind))
		}
		end := c.SGL.Addr + uint64(c.SGL.Length)
		if end < c.SGL.Addr || end > uint64(inCapsule) {
			return refuse(SGLBounds, uint64(inCapsule), end)
		}
	default:
		return refuse(SGLType, uint64(capsule.SGLKeyed), uint64(c.SGL.Kind))
	}
	// Linux's host describes room for all ranges of dataset management, whatever their number.
	// Older ones describe two keys for a release.
	exact := q.number == 0 || c.Opcode != capsule.DatasetManagement && c.Opcode != capsule.ReservationRelease
	if uint64(c.SGL.Length) < length || exact && uint64(c.SGL.Length) != length {
		return refuse(SGLLength, length, uint64(c.SGL.Length))
	}
	return nil
}

// Execute decides what happens with a command whose data has arrived. If the command returns data, data
// is the buffer for it, of c.Length bytes, which an admin command fills completely.
func (q *Queue) Execute(now time.Time, c *Command, data []byte) {
	authenticates := c.Opcode == capsule.OpFabrics && c.Fabrics().Authenticates()
	var r *Refusal
	if authenticates { // without the lock, because it takes long
		r = q.authenticate(c, data)
	}
	q.subs.mu.Lock()
	defer q.subs.unlock()
	c.State = Done
	if q.closed {
		q.refuse(c, &Refusal{Why: NotConnected, Status: status.QueueDeleted})
		return
	}
	switch {
	case authenticates:
		if r == nil && q.auth.Done() {
			r = q.join()
		}
	case c.Opcode == capsule.OpFabrics:
		r = q.fabrics(now, c, data)
	case q.number == 0:
		r = q.admin(now, c, data)
	default:
		r = q.block(c, data)
	}
	if r != nil {
		q.refuse(c, r)
	}
}

// Fail makes a command fail whose data could not be moved, or for another reason of the transport if err
// is a *Refusal.
func (q *Queue) Fail(c *Command, err error) {
	q.subs.mu.Lock()
	defer q.subs.unlock()
	r := (*Refusal)(nil)
	if !errors.As(err, &r) {
		r = &Refusal{Why: TransferFailed, Status: TransferFailed.Status(), Err: err}
	}
	q.refuse(c, r)
}

// End ends the queue's controller, as after a fatal error. It returns the queues whose connections end
// with it.
func (q *Queue) End() []*Queue {
	q.subs.mu.Lock()
	defer q.subs.unlock()
	if q.controller == nil {
		return []*Queue{q}
	}
	return q.subs.end(q.controller)
}

// Complete returns the completion of a command. Err is what the access to blocks returned.
func (q *Queue) Complete(c *Command, err error) capsule.Completion {
	q.subs.mu.Lock()
	defer q.subs.unlock()
	if c.State == Work {
		q.worked(c, err)
	}
	status := status.Success
	if c.Refusal != nil {
		status = c.Refusal.Status
	}
	if !c.known { // the identifier belongs to another command
		done := q.entry(c.ID, status, c.result)
		return done
	}
	return q.completion(c.ID, status, c.result)
}

// completion ends a command.
func (q *Queue) completion(id uint16, status status.Status, result uint64) capsule.Completion {
	delete(q.inFlight, uint32(id))
	return q.entry(id, status, result)
}

// entry returns a completion queue entry.
func (q *Queue) entry(id uint16, status status.Status, result uint64) capsule.Completion {
	if q.size > 0 {
		q.head = (q.head + 1) % q.size
	}
	head := q.head
	if q.noFlow {
		head = capsule.NoFlowControl
	}
	return capsule.Completion{Result: result, SQHead: head, Queue: q.number, ID: id, Status: status}
}

// Close ends the queue. It returns the queues whose connections end with it: those of the controller if
// it was its admin queue. A second Close does nothing.
func (q *Queue) Close() []*Queue {
	q.subs.mu.Lock()
	defer q.subs.unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	c := q.controller
	if c == nil {
		return nil
	}
	if c.queues[q.number] == q {
		delete(c.queues, q.number)
	}
	delete(c.guests, q)
	if q.number == 0 {
		return q.subs.end(c)
	}
	return nil
}

// A Name says whose a queue is. It is zero before the queue is connected.
type Name struct {
	Controller uint16
	Queue      uint16
	Host       string // qualified name
	Subsystem  string // qualified name
}

// Name returns whose the queue is.
func (q *Queue) Name() Name {
	q.subs.mu.Lock()
	defer q.subs.mu.Unlock()
	if q.controller == nil {
		return Name{}
	}
	return Name{q.controller.id, q.number, q.controller.host, q.controller.sub.NQN}
}
