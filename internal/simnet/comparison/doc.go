// Package comparison lets InfiniBand, RoCE v2 and iWARP carry the same loads over the same
// fabric, on virtual time, and measures latency, throughput, fairness and drops. The protocols
// are softrdma's own machines, those of its devices. The networks are models:
//
//   - InfiniBand: the nodes of internal/fabric with credits for each lane, configured by the
//     subnet manager. Switches choose the way by the destination's LID.
//   - RoCE v2 and iWARP: Ethernet switches that drop what finds no room in the queue of an
//     output port, and mark packets above a threshold. They choose among the shortest ways by a
//     hash of addresses and ports. The bytes of iWARP travel as simnet's model of TCP.
//
// Computing takes no time: a device acts at once. So figures are those of the protocols and
// networks alone.
//
// The package is no part of the product; only tests import it.
package comparison
