// Package attack builds and sends the packets of an attacker on the network: RoCE v2
// packets and communication manager messages with a valid ICRC and a forged source, and
// garbage. Only tests import it.
//
// It owns the datagrams, the two kinds of senders, and the sizes of attacks. It does not
// check the target's reaction: package honest checks that legitimate traffic continues,
// and tests check the refusals.
//
// A [Socket] is an unprivileged UDP socket. On the loopback interface it can send from
// every address of 127.0.0.0/8, which suffices to forge another host, but not from an
// address and port that another socket uses. A [Raw] socket sends from any address and
// port, IPv4 and IPv6, and needs CAP_NET_RAW.
//
// [Packet], [Message] or the test itself build a datagram. The sender corrects its ICRC
// for the source port and the IPv4 identification that it is sent with.
//
// # Size of attacks
//
// Tests call [Count] for the number of packets. `go test` sends few, which takes
// seconds; `make attack` sets the environment variable ATTACK_FACTOR, which multiplies
// them. With -short it is a quarter.
package attack
