// Package ucx has the API of UCX's own Go binding, on package msg instead of UCX's libraries:
// it needs no cgo. A Go program written for the binding runs over softrdma with two replace
// lines in its go.mod. docs/ucx.md of softrdma shows them, and lists the differences.
//
// A program makes a UcpContext, a UcpWorker from it, and endpoints to other workers, by the
// address of the worker, by host and port, or by the connection request of a listener:
//
//	context, err := NewUcpContext((&UcpParams{}).EnableTag())
//	worker, err := context.NewWorker(&UcpWorkerParams{})
//	ep, err := worker.NewEndpoint((&UcpEpParams{}).SetUcpAddress(address))
//	request, err := ep.SendTagNonBlocking(1, pointer, size, nil)
//	for request.GetStatus() == UCS_INPROGRESS {
//		worker.Progress()
//	}
//
// The other end uses this package or package msg: UCX itself speaks other protocols.
//
// # Device
//
// All contexts of a process share one device. The environment variable SOFTRDMA_DEVICE names
// it, in the notation of verbs.Open. By default the device is the best routable address of the
// machine.
//
// # Progress
//
// Callbacks are called in UcpWorker.Progress, one at a time, or before the call that starts an
// operation returns, if the operation ends at once. They may start operations, and must not
// block. Methods may be called from any goroutine in every thread mode.
//
// # Memory
//
// The program owns the memory of an operation until its request has ended. Memory of the Go
// heap is allowed as well as that of AllocateNativeMemory and UcpContext.MemMap. It is host
// memory: every other type is refused with UCS_ERR_UNSUPPORTED.
package ucx
