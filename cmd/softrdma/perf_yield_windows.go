package main

// yield gives the processor to another process.
func yield() { schedYield() }
