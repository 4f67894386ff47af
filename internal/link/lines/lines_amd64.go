//go:build !race

package lines

// Copy copies n lines, at least one, by streaming stores. dst is aligned to 16 bytes. Other
// processors may see parts of the lines in any order, and before earlier stores, until Await.
//
//go:noescape
func Copy(dst, src *byte, n int)

// Await makes later stores wait until other processors can see the stores of Copy.
func Await()
