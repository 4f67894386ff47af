// Package iperf3 implements the protocol of iperf3 over any net.Conn, so that the same code runs
// against Debian's iperf3 over TCP and over RDMA.
//
// A test has one control connection and one or more data connections, all to the same port of the
// server. Each begins with the client's cookie of 37 bytes. On the control connection the ends
// exchange states of one byte and JSON texts, each after its length in 32 bits:
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
// The package supports only tests over streams in one direction at a time. It uses nothing beyond
// net.Conn and net.Listener.
package iperf3
