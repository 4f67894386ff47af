// Package interop runs softrdma against other people's implementations of RDMA.
//
// It owns a lab: one or two virtual machines with Debian's kernel, its Soft RoCE (rdma_rxe) and soft iWARP (siw) on
// bridges inside a network namespace of the lab's own, and the host's ends of the bridges for softrdma. The root file system of a
// guest is the host's, read-only, so a program installed on the host runs in the guest. A guest is emulated: nothing
// here needs KVM, RDMA hardware or a module in the host's kernel; it needs root and the Debian packages listed in
// packages.go, which it installs itself.
//
// The tests carry the build tag interop:
//
//	go test -tags interop -count=1 -v -timeout 15m ./interop/...
//
// What both ends of the verbs exerciser (testdata/verbs_peer.py in a guest, ./interop/peer on the host) say to each
// other, and what happens in each scenario, is in README.md. Where the recorded packets come from is in
// testdata/golden.md.
//
// The package never implements a protocol: what is on the wire is always made by the peers under test.
package interop
