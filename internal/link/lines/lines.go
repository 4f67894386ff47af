// Package lines writes whole cache lines that another processor will read.
//
// If that processor has a line in its cache, an ordinary store waits for the line, and soon
// all later stores wait as well. A streaming store of a whole line does not wait: it sends the
// line to memory while the program continues. Between processors that share no cache this is
// several times as fast.
package lines

// Size is the number of bytes of a line.
const Size = 64
