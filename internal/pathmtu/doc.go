// Package pathmtu finds out which packets a path carries, by probes of the transport's own (RFC 8899,
// packetization layer path MTU discovery for datagrams), and not by ICMP, which networks filter and attackers
// forge.
//
// A path MTU of RoCE is agreed when a connection begins, and the PSNs of a message are counted by it (IBTA
// 9.7.3). So a connection cannot send shorter packets when its path shrinks. What it can do is to let the
// network fragment its packets, which costs speed and is not what RoCE v2 wants (annex A17.3.1.1.5), until whole packets
// pass again. A [Search] decides when. It is a machine without I/O: losses, answers and the time go in, probes and
// the next deadline come out.
package pathmtu
