// Package controller decides what an NVMe over Fabrics target does: which hosts may connect, which
// commands a controller accepts, and what it returns. It is a machine without I/O. A transport passes
// it capsules and the time, moves the data that it asks for, and reads and writes the blocks that it
// names.
//
// Each connection of a host has a Queue. For each capsule the transport calls
//
//	q.Begin(now, c, capsule)      // parses and checks the command
//	                              // if c.Fetch(): read c.Length bytes of the host's memory
//	q.Execute(now, c, data)       // decides; data is what arrived, or the buffer to return
//	                              // if c.State == Work: access the blocks of c.Access
//	q.Complete(c, err)            // returns the completion to send
//
// and skips what a command does not need: after a refusal c.State is Done. A command whose State is
// Held completes later, by the function that NewQueue was given. When the connection ends the
// transport calls Close, which returns the queues whose connections end with it.
//
// Every refusal has a status of NVMe and a Reason with a name, what was expected and what was found.
//
// The package reads no clock, starts no goroutine and never touches the data of blocks. All methods
// may be called from any goroutine.
package controller
