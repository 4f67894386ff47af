// Package commands executes the commands of rdma/ib_user_verbs.h, which programs
// write to the file of a device.
//
// It owns the objects of a file behind their handles (protection domains, memory,
// completion queues, queue pairs), the rings that a program and the device share, in
// the layouts of rdma_user_rxe.h and siw-abi.h, and the events of these objects. All
// of it goes when the file ends. What the objects do is the adapter's.
package commands
