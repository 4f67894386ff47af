//go:build !unix

package explain

// systemErrors returns no entries: this system has no errno.
func systemErrors() []Entry { return nil }
