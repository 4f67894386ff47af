// Package rc is the reliable connection (IBTA 9.7) as a machine without I/O:
// the requester with its completer, the responder, and the timers of both.
//
// The requester fetches work requests from the send ring, cuts messages to the
// path MTU and goes back to the oldest unanswered packet whenever the peer or
// the clock says that one was lost. A request stays in its ring until it has
// completed; what the requester remembers of it beside the ring is 16 bytes.
// The completer matches acknowledges and responses to requests and completes
// them in the order of posting.
//
// The responder takes each request through one chain:
//
//	PSN → opcode sequence → opcode valid for this queue pair → resources →
//	length → R_Key and access → execute → acknowledge
//
// Acknowledges are owed, not sent: Next pays a batch of them with a single
// packet. READ responses are produced one packet per Next, straight out of
// registered memory.
//
// The package owns the sequence state of one connection and nothing else. It
// never sends, never sleeps and never reads a clock; it keeps no packet, since
// a lost packet is made anew from its work request or from the memory that a
// READ names.
package rc
