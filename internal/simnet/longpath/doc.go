// Package longpath has the tests of streams, messages and calls over long paths, on virtual time:
// which part of the line one flow fills. They are a package of their own, because goroutines that
// connections of a process share must belong to one bubble.
package longpath
