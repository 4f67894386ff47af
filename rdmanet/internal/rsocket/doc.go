// Package rsocket implements the rsockets protocol without I/O: the byte stream
// that librdmacm's rsockets carry over a reliable connection, with version 1 of
// their connection data (described in docs/rsocket of rdma-core).
//
// Each side has a receive buffer of two halves. It writes the location of a half
// into an entry of the peer's target table, and the peer fills the half to its last
// byte before it uses the next one. Each WRITE carries a message as immediate data:
// 32 bits, of which three are the operation. A message consumes one of the receives
// that the peer has posted, so data needs a credit. Credit is granted as the number
// of the last message that may be sent, modulo 2^16.
//
//	A's target table          B's receive buffer
//	  0: addr key len ──────► ┌──────────────┐
//	  1: addr key len ──┐     │ first half   │
//	     ▲              └───► ├──────────────┤
//	     │ B writes here      │ second half  │
//	     │ what it has read   └──────────────┘
//
// [ConnData] and [Message] are the formats. OpCredits advertises a half of the
// buffer, or credit alone; connection data advertises the first half. A [Sender]
// tracks where and how much may be written, a [Receiver] which data has arrived and
// which messages the peer must get (Update), a [Life] which directions of the connection are open, and a
// [SendBuffer] which parts of the send memory are in use.
//
// The package never waits, posts, polls or reads a clock; it handles offsets, not
// memory. Its types are for one goroutine at a time. A violation of the protocol by
// the peer is returned as a *Fault.
package rsocket
