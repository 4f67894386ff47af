// Package suites tests softrdma against other people's implementations of RDMA, in the lab:
//
//	go test -tags interop -count=1 -v -timeout 45m ./interop/...
//
// It owns what is run and what is expected. It implements no protocol: the programs under test make all packets. The
// origin of the recorded packets is in testdata/golden.md.
package suites
