package verbs

// SetSharedLanes sets how many lanes a shared address has, and returns how to undo that.
func SetSharedLanes(n int) (undo func()) {
	old := sharedLanes
	sharedLanes = n
	return func() { sharedLanes = old }
}
