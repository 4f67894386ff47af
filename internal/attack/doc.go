// Package attack crafts and sends what an adversary on the network would send:
// RoCE v2 packets and messages of the communication manager with a right ICRC
// and a forged source, and garbage. Only tests import it.
//
// It owns the datagrams, the two ways to send them, and the counts of attacks.
// It never judges what the target makes of them: the honest traffic that must
// go on meanwhile is package honest's, and what must be refused the test's.
//
// A [Socket] is an unprivileged UDP socket. On the loopback it can send from
// every address of 127.0.0.0/8, which is enough to forge another host there, but
// not from an address and port that another socket has. A [Raw] socket sends
// from any address and port, IPv4 and IPv6, and needs CAP_NET_RAW.
//
// Datagrams are crafted once, by [Packet], [Message] or by hand, and either way
// of sending gives them the ICRC that belongs to the IPv4 identification that
// they leave with.
//
// # How many
//
// Tests call [Count] for the size of an attack: it multiplies what `go test`
// sends, which takes seconds in all, by the environment's ATTACK_FACTOR.
// `make attack` sets that. With -short it is a quarter.
package attack
