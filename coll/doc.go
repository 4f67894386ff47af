// Package coll has collective operations of groups of programs, over the tagged messages of
// package msg: barrier, broadcast, reductions, gathers, scatters, exchanges and scans of slices.
//
// A Group is a numbered set of members. Each member has a worker, and knows the addresses of all
// workers, in the order of their ranks. `softrdma run` starts programs that World joins:
//
//	g, err := coll.World(ctx)
//	err = coll.AllReduce(ctx, g, sum, part, coll.Sum[float32]())
//
// New makes a group of workers whose addresses the program has exchanged itself.
//
// # Calls
//
// All members of a group call the same operations in the same order, with slices of the same
// length where the documentation does not say otherwise. A group executes one operation at a
// time; another call meanwhile ends with ErrBusy. Operations of different groups may run at the
// same time. Split makes groups of the members of a group.
//
// Elements are of any type without pointers. They travel as they lie in memory, so all members
// are of one byte order and one size of int. Destination and source may be the same slice where
// that is documented, and do not overlap otherwise.
//
// # Failures
//
// When a call ends with an error, the group has failed. The member tells all others, whose current
// and later calls end with a *MemberError that names the rank that failed, and matches ErrMember. The
// cause may be a process that ended, a context that ended, slices of different lengths, different
// operations, or Abort. A process that vanished is noticed within about PeerTimeout of the worker.
// Errors that match ErrBusy or errors.ErrUnsupported do not concern other members.
//
// After a call has returned, it does not write to the program's memory. After a call that failed,
// peers may still read the source, whose contents no longer matter then.
//
// # Tags
//
// The tags of the package have bit 63 set. The program may use its worker for messages with other
// tags; its receives must then have bit 63 in the mask and not in the tag. docs/coll.md describes
// the other bits.
package coll
