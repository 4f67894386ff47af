//go:build !unix

package explain

// systemErrors are those that a peer on Linux tells by number.
func systemErrors() []Entry { return nil }
