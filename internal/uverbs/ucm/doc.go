// Package ucm executes the commands of rdma/rdma_user_cm.h, by which librdmacm
// makes connections.
//
// It owns the ids and event channels of programs, and the conversion between the
// kernel's structures and those of package cma, which makes the connections. It
// moves no queue pair: librdmacm does that with commands on the device's file.
package ucm
