package carrier

import "softrdma/verbs"

// An Owner is what a protocol keeps for one or more connections. The engine's lock is held in all calls.
type Owner interface {
	// Arrive takes a frame. It returns true to keep the receive until Conn.Release. An error ends the
	// connection.
	Arrive(c *Conn, frame []byte, at int) (keep bool, err error)
	// Sent reports that the frame in a slot of the owner's was sent, or never will be.
	Sent(c *Conn, slot int)
	// Done reports that a request of Conn.Post has completed.
	Done(c *Conn, i int)
	// Push sends what waited for completions. It is called once for those that were taken together, and also
	// after the owner has sent something: what Push sends leads to another call.
	Push(c *Conn)
	// Drain takes what arrived beside the queue pair, before the connection fails because of its peer, its
	// device or a completion.
	Drain(c *Conn)
	// Failed reports that the connection has failed, and carries nothing from now on. Conn.Err says why.
	// The device may still use memory.
	Failed(c *Conn)
	// Released reports that the connection uses no memory any more, except receives that are kept. From now
	// on nothing may be sent on it.
	Released(c *Conn)
}

// A Plain owner embeds it: it sends frames from its own slots, and waits for nothing else.
type Plain struct{}

// Done implements Owner, as the methods below do.
func (Plain) Done(*Conn, int) {}

// Push has nothing to send.
func (Plain) Push(*Conn) {}

// Drain has nothing to take.
func (Plain) Drain(*Conn) {}

// Failed waits for Released.
func (Plain) Failed(*Conn) {}

// Credits let an end send only frames for which its peer has posted receives. Without them, a frame that
// finds no receive is sent again by the queue pair. Grants need a slot of the connection.
type Credits interface {
	Ready() bool              // the peer has a receive for a frame
	Stamp(frame []byte)       // counts a frame that is sent, and writes into it what the peer may send; nil has no room for that
	Learn(frame []byte) error // reads that in a frame of the peer
	Consume()                 // counts a receive that was posted again
	Owes(held int) bool       // the peer must be told, by Grant unless another frame is sent; the owner keeps so many receives
	Grant(b []byte) (n int)   // makes a frame that only does that, for which the peer always has a receive
}

// A Shortcut carries frames beside the queue pair.
type Shortcut interface {
	Reserve(n int) []byte // memory for a frame, nil if there is no room
	Await() bool          // asks for a push when there is room, and reports whether there is some already
	Commit(n int)         // sends the frame that was written to that memory
}

// A Move is a READ or WRITE of the peer's memory. It ends with a call of Mover.Moved.
type Move struct {
	By      Mover
	Slot    int // the mover's
	Write   bool
	Data    []byte // what a READ fills, or a WRITE sends
	Address uint64 // of the peer's memory
	Key     uint32
}

// A Mover has the memory of moves. The engine's lock is held in all calls.
type Mover interface {
	// Local returns where the data of a move is registered on the connection's rail.
	Local(c *Conn, m Move) (verbs.SGE, error)
	// Moved reports that a move has ended.
	Moved(c *Conn, m Move, err error)
}

// A Host is the program that drives an engine. Its methods are called with the engine's lock.
type Host interface {
	Event()  // something has happened: make progress soon
	Unlock() // releases the lock, as Engine.Unlock does
}
