// Package rc is the reliable connection (IBTA 9.7) as a machine without I/O: the
// requester with its completer, the responder, and the timers of both.
//
// The requester fetches work requests from the send ring and cuts messages to the path
// MTU (segment.go, reads.go). A request stays in its ring until it has completed; the
// requester remembers 16 bytes of it beside the ring. The completer matches acknowledges
// and responses to requests and completes them in the order of posting (completer.go,
// response.go, complete.go).
//
// The responder (package responder) takes each request through one chain of checks.
// Acknowledges are owed, not sent: Next sends one packet for a batch of them. READ
// responses are produced one packet per Next, straight out of registered memory.
//
// # Recovery
//
// With a standard peer the requester goes back to the oldest unanswered packet whenever
// the peer or the acknowledgement timer says that one was lost (retry.go). Two softrdma
// ends find each other by a reserved bit of the BTH. Their responder holds requests that
// arrive behind a lost one in a reorder buffer (responder/ahead.go, package reorder) and
// says so by selective acknowledges. Their requester keeps a scoreboard (package
// scoreboard, selectiveack.go), detects losses by time as RACK does (loss.go), and sends again what
// is lost and nothing else (retransmit.go). With any peer a tail-loss probe detects the
// loss of the last packet (tailprobe.go).
//
// # What limits a sender
//
//   - congestion window and pace: window.go, package congestion
//   - READs and atomics that the peer serves at a time: reads.go
//   - receives that are posted at the peer, the end-to-end credits: credits.go
//   - the wait after an RNR NAK: rnr.go
//   - the states RTS and SQD: requester.go (admit), drain.go
//
// The waits for an acknowledge and the retry counter are in retry.go.
//
// # XRC
//
// The extended reliable connection is RC with other opcodes, one direction, and a header that
// names the shared receive queue of each request (xrc.go, responder/target.go).
//
// # Who the peer is
//
// A packet must come from the peer's address and, once it is known, from the peer's
// source port (sourceport.go). A silent peer is probed, and given up (keepalive.go).
//
// The package owns the sequence state of one connection and nothing else. It never sends,
// never sleeps and never reads a clock. It keeps no sent packet: a lost packet is built
// again from its work request, or from the memory that a READ names.
package rc
