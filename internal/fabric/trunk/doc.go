// Package trunk is one end of a trunk: a cable between ports of two fabrics, each in a process
// of its own, whose frames travel in datagrams. Datagrams can be lost, duplicated and
// reordered. InfiniBand links lose nothing and keep the order, because credits and the
// transports above rely on that, so a trunk repeats what was lost and restores the order.
//
//	port <-> Trunk: link training -> messages -> segments -> packets <~~ UDP ~~> the peer's Trunk <-> port
//
// Frames of the link, with the link packets that grant credit, pass through unchanged: flow
// control is the two ports' own, end to end. A peer that goes silent takes the link down, as a
// cable does that is pulled out.
//
// Two ends find each other by Hello packets. A session begins when a Hello proves that its
// sender has received the other's random connection ID, and ends when nothing arrives for
// some time. All later packets carry both IDs, so that an attacker who cannot read the packets
// cannot forge them either.
//
// The package does no I/O and reads no clock. It sorts no frames: the port that gets them
// checks them as it checks those of any cable. A Trunk belongs to one goroutine at a time.
package trunk
