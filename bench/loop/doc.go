// Package loop is one end of the reference loops that package compare compares softrdma
// with: streams and ping-pongs over the kernel's UDP and TCP, a copy of memory on one
// core, and ping-pongs of two processes over shared memory. The same loops measure
// rdmanet. They also show the limit of what the kernel and the processor offer.
//
// It owns the loops, their configurations, and the counters of a process that Linux
// keeps. It chooses no peers and computes no ratios.
package loop
