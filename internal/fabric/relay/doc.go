// Package relay lets a program attach to a fabric on another host. It joins the two parts of an
// attachment, each of them local to its process, by datagrams:
//
//	program: Port and Link <-> socket, rings <-> Relay <~~ UDP ~~> Relay <-> socket, rings <-> fabric
//
// So a Relay is the fabric for the program, and the program for the fabric: both sides work as
// they do on one host. Messages of the socket and packets of the rings travel as frames of a
// trunk (package trunk), which loses nothing and keeps their order. Each service level, and the
// messages, have credits of their own, so that a level whose receiver stalls does not stop
// another, and rings of one side that are full stop the sender at the other side.
//
// The package understands neither messages nor packets. It checks what the other process sends as
// far as credits and lengths, and the two ends of the rings check the rest.
package relay
