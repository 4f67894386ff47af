// Package compare compares softrdma with other implementations: the kernel's TCP and
// UDP, iperf3 and UCX, in a virtual machine the kernel's Soft RoCE, and within one
// machine what its memory and its kernel offer two processes. It runs each tool as a
// pair of processes on the same path, one tool after the other, in several rounds.
// Ratios are computed within a round, because machines are noisy.
//
// It owns the measuring and the report. Package loop has the reference loops. It
// measures softrdma through the softrdma command. The report names tools that are not
// installed and paths that cannot be created.
package compare
