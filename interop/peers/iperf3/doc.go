// Package iperf3 speaks the protocol of iperf3 over any net.Conn, so that the
// same few calls serve Debian's iperf3 over TCP and over RDMA.
//
// A test has one control connection and some data connections, all to the
// server's one port. Each begins with the client's cookie, 37 bytes. On the
// control connection the ends tell each other states, a byte each, and JSON
// texts, a length of 32 bits before each:
//
//	client                          server
//	cookie                     →
//	                           ←    PARAM_EXCHANGE
//	parameters                 →
//	                           ←    CREATE_STREAMS
//	cookie on each stream      →
//	                           ←    TEST_START, TEST_RUNNING
//	data                       ↔    (one way, by the parameter "reverse")
//	TEST_END                   →
//	                           ←    EXCHANGE_RESULTS
//	results                    →
//	                           ←    results, DISPLAY_RESULTS
//	IPERF_DONE                 →
//
// The package knows the tests over streams alone, one way at a time, and
// never more than net.Conn and net.Listener have.
package iperf3
