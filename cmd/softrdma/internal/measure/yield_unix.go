//go:build unix

package measure

import "runtime"

// Yield gives the processor to another process. With a single processor, polling would
// keep the peer from answering.
func Yield() { runtime.Gosched(); schedYield() }
