// Package exerciser holds the scenarios of the verbs exerciser: what both ends do, and what each end reports.
//
// It owns the scenarios, the messages of both ends, the recorded results of Linux's own devices and the list of
// differences that are allowed. Two programs play the scenarios: testdata/verbs_peer.py over Debian's pyverbs, and
// verbspeer over softrdma. ../../README.md describes them.
package exerciser
