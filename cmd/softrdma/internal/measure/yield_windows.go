package measure

// Yield gives the processor to another process.
func Yield() { schedYield() }
