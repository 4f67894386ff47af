//go:build !unix

package explain

// makeSystemErrors returns no entries: this system has no errno.
func makeSystemErrors() []Entry { return nil }
