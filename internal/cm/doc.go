// Package cm is the communication manager (IBTA chapter 12) of one device as a protocol
// machine: connection establishment and release by REQ, MRA, REP, RTU, REJ, DREQ and DREP, and
// service ID resolution by SIDR_REQ and SIDR_REP. Alternate paths (LAP) are refused, because
// RoCE has none.
//
// On an InfiniBand fabric (Configure) the peers' addresses are LIDs, and a subnet
// administrator provides the paths.
//
// Like the transports' machines it does no I/O, starts no goroutine and reads no clock:
// datagrams of queue pair 1, calls and the time come in; datagrams, events and the next
// deadline go out. One goroutine at a time calls a Manager and its objects.
//
// It owns the protocol between two communication managers. It never touches a queue pair: Attr
// returns what its transitions need, and the user of the Manager makes them. The user also
// owns ports, address resolution, backlogs of accepted connections and permission to listen.
//
// # Life of a connection
//
// The active side calls Connect (REQ), gets RepReceived, brings its queue pair to RTS and
// calls Ready (RTU). The passive side gets ReqReceived on a Listener, brings its queue pair to
// RTS, calls Accept (REP), and gets RtuReceived. Either calls Disconnect (DREQ); the other
// gets DreqReceived and calls DisconnectReply (DREP). Both then get TimewaitExit when no late
// packets of the connection can arrive. Destroy ends a Conn, in any state.
//
// What an event points to is valid until the handler returns. The handler must not call the
// Manager.
//
// # Forged requests
//
// A REQ costs its sender one datagram with any source address. It costs this end a connection
// and the resources that the program allocates for it. So the state that peers can create in a
// Manager is limited (halfOpen): the connections between REQ and RTU, in total and for each
// source, and every duration that a peer chooses. When requests arrive faster than peers
// confirm them, or a peer did not confirm, a request reaches the program only after its sender
// has answered a DREQ with IDs that cannot be guessed (screening). Proven requests for which
// there is no room are queued and served in turn by source.
//
// # Where this differs from Linux's communication manager
//
// Messages and times are the same, and so is every answer that a peer relies on. Beyond that:
//
//   - A destroyed connection remains without its user until its DREQ is answered or has
//     timed out and its time wait is over, so that a lost DREQ or DREP does not leave
//     the peer waiting.
//   - A REP for a connection that does not exist is rejected (reason 6), and an
//     end whose wait has timed out says so by a REJ (reason 4), so that the other
//     end need not time out as well (IBTA 12.6.7.2, 12.9.8.7).
//   - A connection's messages must come from its peer's address. Stale
//     connections and duplicates are recognized by address, GUID and number, so that two
//     devices with the same GUID do not harm each other.
//   - A REQ is repeated twice before its first time-out, and a REP every half
//     second, for at most eight seconds.
//   - Late duplicates of a REQ are recognized during the time wait.
//   - REQs are checked for what the device does not support (transport, address, path
//     MTU, partition) and rejected with the corresponding reason.
//   - Simultaneous requests of two active sides make one connection if both
//     ask for it by ConnectParams.PeerToPeer (IBTA 12.10.4).
package cm
