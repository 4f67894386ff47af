// Package rsocket is the rsockets protocol without I/O: the byte stream that
// librdmacm's rsockets carry over a reliable connection, as they speak it since
// version 1 of their connection data (rdma-core up to today; docs/rsocket
// there describes it).
//
// Each side has a receive buffer of two halves. It tells the peer where a half
// lies by writing into an entry of the peer's target table, and the peer fills
// the half to its last byte before it takes the next one. What is written is
// told by immediate data: 32 bits of which three say what they are about. Each
// such message takes one of the receives that the peer has posted, so data
// needs a credit; credit comes as the number up to which the peer may count,
// modulo 2^16.
//
//	A's target table          B's receive buffer
//	  0: addr key len ──────► ┌──────────────┐
//	  1: addr key len ──┐     │ first half   │
//	     ▲              └───► ├──────────────┤
//	     │ B writes here      │ second half  │
//	     │ what it has read   └──────────────┘
//
// [ConnData] and [Message] are the formats. A [Sender] knows where and how much
// may be written, a [Receiver] what has come and what the peer must be told, a
// [Life] which halves of the connection are open, and a [SendBuffer] what of the
// memory that data is sent from is in use.
//
// The package never waits, posts, polls or reads a clock; it knows offsets, not
// memory. Its types are for one goroutine at a time. A peer that breaks the
// protocol is refused with a *Fault and can do no harm.
package rsocket
