// Package lines writes whole cache lines that another processor will read.
//
// If that processor has a line in its cache, an ordinary store waits for the line, and soon all
// stores behind it wait as well. A streaming store of a whole line does not: it sends the line to
// memory while the program goes on. Between processors that share no cache that is several times
// as fast.
package lines

// Size is the number of bytes of a line.
const Size = 64
