//go:build unix

package main

import "runtime"

// yield gives the processor to another process: with a single one, polling
// would keep the peer from answering.
func yield() { runtime.Gosched(); schedYield() }
