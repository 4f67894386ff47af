// Package iwarp is a reliable connection over iWARP as a machine without I/O:
// MPA (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040) with its
// extensions (RFC 7306), over the same rings, memory and states as package rc.
// What RoCE has as packets, iWARP has as a stream of bytes over TCP, so the doors
// differ from machine.Machine's where packets come in.
//
// # Streams and queue pairs
//
// A Stream is one TCP connection. It begins with a set-up, in which one end
// asks (Connect) and the other answers (Listen, then Accept or Reject when
// Requested was heard), and goes on in full operation on a QP. The set-up moves
// the queue pair from INIT or RTR to RTS; it cannot be reached otherwise, as a
// queue pair without a stream has no peer. All events of a connection come to
// the stream's handler, which may only take note of them.
//
// Errors, transitions to ERR and RESET, and Disconnect end the stream: an iWARP
// queue pair has one connection in its life between two RESETs.
//
// # The doors
//
// Whoever owns the socket drives the stream, from one goroutine at a time:
//
//	readable:  room := s.Room(now, scratch); n := readv(fd, room); s.Filled(now, n)
//	           end of file, or an error: s.Closed(now, lost)
//	writable,  for s.Next(now, &out) { n := writev(fd, out.Pieces); s.Sent(now, n); until n < out.Len }
//	doorbell:
//	timer:     s.Expire(now) when s.Deadline() has passed
//	after each: s.Shut(), what to do with the socket
//
// A SEND that finds no receive stalls the stream: Room gives nothing and the socket
// is left alone while Stalled, until a receive is found by Expire.
//
// Room gives slices of registered memory for the payload that is due, and scratch
// behind them. Where much payload is due, the scratch behind it is short, so that
// a read brings payload to its place and little else; where little is due, it is
// long, and a read brings many short messages. All that is read is consumed by
// Filled, in whatever pieces it comes: nothing stays in scratch, which all streams
// of a lane can share. With markers, payload goes through scratch.
//
// Next gives a batch of FPDUs as a gather list: headers, trailers and short payload
// from an arena that the Pool lends until all of it was sent, long payload from
// registered memory. Where the socket takes a part, the next call gives the rest,
// with memory looked up anew. Payload of READ responses is copied where CRCs are
// on, as the memory may be changing. Sent follows each Next, Filled each Room,
// before any other call; transitions come between.
//
// A queue pair in ERR without a stream needs QP.Settle after a doorbell.
// QP.Transition may take the stream away from its queue pair: the socket's owner
// keeps the stream and asks it for Shut.
//
// # Completions
//
// SENDs and WRITEs complete when TCP has their last byte, READs and atomics when
// they are answered, all in the order of posting. A CRC over payload that went
// from the socket to its place is computed there, before anything is completed;
// an FPDU that a read brings as a whole is checked before it is looked at. So a
// program that writes to a buffer while a message arrives in it breaks the
// connection.
//
// A fault of the peer's ends the connection with a Terminate; this end's status or
// event is what package rc gives for the same fault. A Terminate of the peer's
// fails the request that it names with the status of a NAK of its kind. Since
// SENDs and WRITEs may have completed when it comes, it can be an event instead.
// When the connection breaks with requests outstanding, the oldest completes with
// RETRY_EXC_ERR.
//
// # Where this differs
//
//	from                  in                                              why
//	RFC 5044 7.1.1        two reserved flags of start-up frames           two softrdma ends learn that both have RFC 7306
//	RFC 5044 7.1.1        a third one, as Linux's siw has it              FPDUs that are longer than TCP's segments cost less
//	RFC 5044 7.1.2        an initiator sends a WRITE of no bytes first,   siw as a responder does not see what comes right behind its reply
//	                      and again up to 2 s later
//	RFC 5044 7.1.2        a responder begins after 250 ms of waiting       servers that speak first, behind siw's set-up (Params.Patience)
//	RFC 5040 6.2          an end comes 250 ms after the reply at least    siw takes one that it finds with the reply for a refusal
//	RFC 6581 10           a reply of revision 1 is taken                   old hardware sends it, and Linux's drivers take it
//	RFC 5041, RFC 5044    payload is placed before its CRC is checked     no copy; siw does so as well
//	RFC 5040 4.8          Terminates with changed places are understood   siw's bit fields lie by the host's byte order
//	siw                   a message waits a second for its receive         programs count on RNR; RFC 5041 7.1 lets it
//	siw                   statuses in place of flushes                    the request that failed is known
//	siw                   completions in order                            the verbs want it
//	siw                   a SEND too long is refused as such              siw tells of no buffer
//	siw                   too many READs are refused by DDP               siw tells a catastrophic error
//	siw                   READs scatter to several entries                the sink is this end's own
//	siw                   the segments of a WRITE may lie anywhere        the RFC leaves that to their sender
//	siw                   a silent peer is asked by READs of no bytes     TCP answers for a process that is stopped
//
// SENDs with immediate data do not exist in iWARP. WRITEs with immediate data are
// an RDMA Write and an Immediate Data message, as Linux's drivers have it; the
// receiver's completion tells the length of the WRITE.
//
// The package owns the protocol state of one connection. It never reads a clock,
// never blocks and starts no goroutine.
package iwarp
