package adapter

import (
	"softrdma/internal/adapter/drive"
	"softrdma/internal/link"
)

// The stages of a packet, and which lock is held in each.
//
// Out:
//
//	post      caller       fills the send ring (package queue): one producer, no lock
//	ring      caller       takes the lane, or leaves the queue pair with the doorbell
//	schedule  lane's lock  Transmit gives each ready task its turn (package schedule)
//	Next      lane's lock  the machine fills headers and slices of registered memory
//	Send      lane's lock  the flow's route adds the packet to a batch, or hands it to a
//	                       lane of this process, whose lock it tries, or to a peer
//	flush     lane's lock  one system call sends the batch; payloads are free again
//
// In:
//
//	Receive   lane's lock  one system call brings a batch; its memory is the link's
//	packet    lane's lock  the checks of IBTA 9.6; a packet for another lane is
//	                       left with that lane's doorbell
//	deliver   lane's lock  the machine copies the payload to its place
//	Push      CQ's lock    the completion, and the event it was armed for
//	Unlock    lane's lock  stores to other processes are made before it is given up
//
// A lane's lock is taken by posters and pollers (TryLock), and by those who change or
// destroy objects (Lock). The holder of one tries at most one other lane's (take), and
// never waits for it.

const (
	// transmitBudget bounds the packets of one round, so that acknowledges and new
	// requests keep each other going. A task that has nothing to send counts for a
	// packet.
	transmitBudget = drive.ReceiveBudget * link.MaxPackets

	// maxBurst is the number of packets that a queue pair sends in one turn.
	maxBurst = 2 * link.MaxPackets

	// overdue is the number of rounds for which deadlines wait while the link always
	// has more to receive. The answer that a deadline waits for may be in the link, and
	// a needless retransmission makes an overload worse. It counts rounds and not time:
	// a process that was not running finds its deadlines passed and the answers in the
	// link. So many rounds receive a receive buffer's worth of small packets.
	overdue = 512
)
