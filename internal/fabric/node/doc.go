// Package node joins ports to a node of an InfiniBand fabric: a switch, or the link side of
// an adapter. It forwards packets by the linear and the multicast table, chooses their
// lanes, and delivers those that end here. It implements hardware.Node, by which agents read
// and write what a subnet manager sets.
//
// Management packets are data to it. Directed routes are the agents' business: a switch
// delivers such packets to its port 0, and its agent sends them on by the port of the route.
//
//	         +--------------------- Node ---------------------+
//	Receive  | port.Receive -> route -> port.Send -> port.Next |  Next
//	-------->|                   |          ^                  |-------->
//	         +-------------------|----------|------------------+
//	                          Deliver      Send
//	                             v          |
//	                      transports of an adapter, agents
//
// The package does no I/O and reads no clock. A node belongs to one goroutine at a time.
package node
