// Package channel is what protocols that exchange messages over RDMA share: a connected queue pair
// whose receives are always posted, registered buffers, and requests that a caller waits for.
//
// It knows no protocol, and it is only a convenience above packages rdmacm and verbs. A connection
// has one completion queue, and one goroutine that takes its completions. Messages and buffers belong
// to the caller until it gives them back.
package channel
