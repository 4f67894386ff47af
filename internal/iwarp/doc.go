// Package iwarp is a reliable connection over iWARP as a machine without I/O: DDP (RFC 5041)
// and RDMAP (RFC 5040) with its extensions (RFC 7306) over MPA's FPDUs (RFC 5044), with the
// same rings, memory and states as package rc. Package mpa negotiates the set-up. The unit of
// RoCE is the packet; here it is a byte stream over TCP, so the methods for received data
// differ from machine.Receiver's.
//
// # Streams and queue pairs
//
// A Stream is one TCP connection. It begins with a set-up, in which one end asks (Connect) and
// the other answers (Listen, then Accept or Reject after Requested). Then it is in full
// operation on a QP. The set-up moves the queue pair from INIT or RTR to RTS; a queue pair
// without a stream has no peer and cannot reach RTS in another way. All events of a connection
// go to the stream's handler, which must not call the stream.
//
// Errors, transitions to ERR and RESET, and Disconnect end the stream: an iWARP queue pair has
// one connection between two RESETs.
//
// # Where the rules are
//
//	set-up, who sends first                      setup.go, wakeup.go; package mpa
//	received FPDUs: markers, CRC                 receiver.go
//	headers: versions, STags, order, receives    receivesegment.go
//	complete messages                            deliver.go
//	READs and atomics of the peer                readresponder.go
//	waiting for a receive                        stall.go
//	which Terminate a fault sends                fault.go
//	requests, in order                           requester.go, message.go, complete.go
//	sent FPDUs                                   transmitter.go
//
// # Driving a stream
//
// The owner of the socket drives the stream, from one goroutine at a time:
//
//	readable:  room := s.Room(now, scratch); n := readv(fd, room); s.Filled(now, n)
//	           end of file, or an error: s.Closed(now, lost)
//	writable,  for s.Next(now, &out) { n := writev(fd, out.Pieces); s.Sent(now, n, 0); until n < out.Len }
//	doorbell:
//	timer:     s.Expire(now) when s.Deadline() has passed
//	after each: s.Shut(), what to do with the socket
//
// A SEND that finds no receive stalls the stream: while Stalled, Room returns nothing and the
// socket is not read, until Expire finds a receive.
//
// Room returns slices of registered memory for the expected payload, followed by scratch. If
// much payload is expected, the scratch is short, so that a read brings payload to its place
// and little else. If little is expected, the scratch is long, and one read brings many short
// messages. Filled consumes all that is read: nothing stays in scratch, so all streams of a
// lane can share it. With markers, payload goes through scratch.
//
// Next returns a batch of FPDUs as a gather list: headers, trailers and short payload from an
// arena that the Pool lends until all of it was sent, long payload from registered memory. If
// the socket accepts a part, the next call returns the rest, with memory looked up again.
// Payload of READ responses is copied if CRCs are on, because the memory may be changing. Sent
// follows each Next and Filled each Room before any other method is called; transitions may
// come between.
//
// A queue pair in ERR without a stream needs QP.Settle after a doorbell. QP.Transition may
// take the stream away from its queue pair: the socket's owner keeps the stream and asks it
// for Shut.
//
// # Completions
//
// SENDs and WRITEs complete when the system has their last byte, so that the end of the
// program does not lose it. A link with its own buffer therefore tells Sent how many bytes it
// still holds. READs and atomics complete when they are answered. All complete in the order of
// posting. A CRC over payload that went directly from the socket to its place is computed
// there, before anything is completed. The CRC of an FPDU that one read brings completely is
// checked first. So a program that writes to a buffer while a message arrives in it breaks the
// connection.
//
// A fault of the peer ends the connection with a Terminate. This end reports the same status
// or event as package rc for the same fault. A Terminate of the peer fails the request that it
// names with the status of the corresponding NAK. SENDs and WRITEs may have completed by then;
// an event reports it instead. When the connection breaks with requests outstanding, the
// oldest completes with RETRY_EXC_ERR.
//
// # Where this differs
//
//	from                in                                             why
//	RFC 5044 7.1.1      two reserved flags of start-up frames          two softrdma ends find out that both have RFC 7306
//	RFC 5044 7.1.1      a third one, as in Linux's siw                 FPDUs that are longer than TCP's segments cost less
//	RFC 5044 7.1.2      an initiator sends a WRITE of no bytes first,  siw as a responder misses data that arrives right after its reply
//	                    and again up to 2 s later
//	RFC 5044 7.1.2      a responder begins after 250 ms of waiting     servers that speak first, behind siw's set-up (Params.FirstWait)
//	RFC 5040 6.2        the end comes at least 250 ms after the reply  siw takes an end that it finds with the reply for a refusal
//	RFC 6581 10         a reply of revision 1 is accepted              old hardware sends it, and Linux's drivers accept it
//	RFC 5041, RFC 5044  payload is placed before its CRC is checked    no copy; siw does so as well
//	RFC 5040 4.8        Terminates with swapped fields are understood  siw's bit fields depend on the host's byte order
//	siw                 a message waits a second for its receive       programs rely on RNR; RFC 5041 7.1 allows it
//	siw                 statuses instead of flushes                    the request that failed is known
//	siw                 completions in order                           the verbs require it
//	siw                 a SEND too long is refused as such             siw reports that there is no buffer
//	siw                 too many READs are refused by DDP              siw reports a catastrophic error
//	siw                 READs scatter to several entries               the sink is this end's own
//	siw                 the segments of a WRITE may lie anywhere       the RFC leaves that to their sender
//	siw                 a silent peer is probed by READs of no bytes   TCP answers for a stopped process
//
// SENDs with immediate data do not exist in iWARP. A WRITE with immediate data is sent as an
// RDMA Write and an Immediate Data message, as by Linux's drivers; the receiver's completion
// has the length of the WRITE.
//
// The package owns the protocol state of one connection. It never reads a clock, never blocks
// and starts no goroutine.
package iwarp
