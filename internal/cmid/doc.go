// Package cmid defines the terms of connection management by IP address and port (IBTA annex
// A11, rdma_cm): port spaces, the states and events of a communication identifier, the
// parameters of a connection, and its errors.
//
// The package owns no identifier and sends nothing.
package cmid
