// Package tap joins the system's network stack to a port of an Ethernet fabric, by a network interface
// that it makes (a tap device): what the system sends there enters the fabric, and what arrives at the
// port is received by the system.
//
// It only moves frames. The fabric's process answers ARP, see package live.
package tap
