// Package bench measures softrdma beside its peers: the kernel's TCP and UDP,
// iperf3 and UCX, and in a virtual machine the kernel's Soft RoCE. All run as pairs of processes on the same path, in turn,
// several rounds, so that a ratio is taken from neighbours in time: machines
// are noisy, and absolute figures hold for one of them.
//
// It owns the measuring, the raw loops of the kernel's protocols that stand for
// the limit, and the report. What softrdma does is measured from outside, by
// its own command. A peer that is not installed is named in the report, and so
// is a path that cannot be made.
package bench
