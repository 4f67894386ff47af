// Package comparison lets InfiniBand, RoCE v2 and iWARP carry the same loads over the same
// fabric, on virtual time, and measures latency, throughput, fairness and drops. The protocols
// are the machines of softrdma's devices. The networks are models:
//
//   - InfiniBand: the nodes of internal/fabric with credits for each lane, configured by the
//     subnet manager. Switches route by the destination's LID.
//   - RoCE v2 and iWARP: Ethernet switches that drop packets if the queue of an output port is
//     full, and mark packets above a threshold. They choose among the shortest paths by a
//     hash of addresses and ports. The bytes of iWARP travel as simnet's model of TCP.
//
// Computing takes no time: a device acts at once. So the figures describe only the protocols
// and networks.
//
// The package is not part of the product; only tests import it.
package comparison
