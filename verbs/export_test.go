package verbs

// SetSharedLanes sets the number of lanes of a shared address, and returns a function that
// restores it.
func SetSharedLanes(n int) (undo func()) {
	old := sharedLanes
	sharedLanes = n
	return func() { sharedLanes = old }
}
