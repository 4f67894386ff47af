// Package cmid defines the words of connection management by IP address and
// port (IBTA annex A11, rdma_cm): port spaces, the states and events of a
// communication identifier, the parameters of a connection, and its errors.
//
// A connection manager of this process (package cma) and the client of a
// daemon's manager both speak in these words. The package owns no identifier
// and sends nothing.
package cmid
