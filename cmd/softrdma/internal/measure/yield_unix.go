//go:build unix

package measure

import "runtime"

// Yield gives the processor to another process: with a single one, polling
// would keep the peer from answering.
func Yield() { runtime.Gosched(); schedYield() }
