// Package lab runs virtual machines with Linux's own RDMA devices.
//
// It owns one or two guests with Debian's kernel, its Soft RoCE (rdma_rxe) and soft iWARP (siw), on two bridges inside
// a network namespace of the lab's own, and the host's ends of the bridges, where softrdma runs. The root file system of
// a guest is the host's, read-only, so that a program that is installed on the host runs in the guest. Guests are
// emulated: the lab needs no KVM, no RDMA hardware and no module in the host's kernel. It needs root and the Debian
// packages of packages.go, which it installs itself.
//
// It starts programs, waits for them and captures what they send. It knows no RDMA program and checks nothing.
package lab
