// Package rdmanet gives RDMA connections the shape of package net: Dial and
// Listen, net.Conn and net.Listener, so that net/http, crypto/tls and gRPC run
// over RDMA unchanged.
package rdmanet
