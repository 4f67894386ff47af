// Package peers starts the programs that stand at either end of a test in the lab: programs of librdmacm and rdma-core
// in a guest, over rxe or siw, and softrdma's counterparts on the host.
//
// It owns how such a program is started, watched and ended, and the pairing of both ends of the verbs exerciser. The
// folders below it are the counterparts themselves: verbspeer and exerciser (scenarios of verbs), cmpeer (librdmacm's
// example programs), iperf3, rawpeer (an iWARP initiator that makes mistakes) and relay (which cuts connections). What
// a test expects is the business of package suites.
package peers
