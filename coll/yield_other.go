//go:build !linux

package coll

// yieldProcessor does nothing: without Linux there are no boards to wait for.
func yieldProcessor() {}
