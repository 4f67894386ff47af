// Package comparison lets InfiniBand, RoCE, iWARP and TCP carry the same loads over the same fabric,
// on virtual time, and measures latency, throughput, fairness, drops and pauses. The protocols are
// the machines of softrdma's devices. The networks are:
//
//   - InfiniBand: the nodes of internal/fabric/subnet with credits for each lane, configured by the
//     subnet manager. Switches route by the destination's LID.
//   - Ethernet for the others: the switches of internal/fabric/lan, with or without pauses. The bytes
//     of iWARP and TCP travel as simnet's model of TCP.
//
// Computing takes no time: a device acts at once. So the figures describe only the protocols
// and networks.
//
// The package is not part of the product; only tests import it.
package comparison
