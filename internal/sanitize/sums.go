package sanitize

import (
	"fmt"
	"hash/maphash"
	"runtime/debug"
)

// sums are what a buffer contained once: a hash of each of its blocks.
type sums []uint64

// sampled is the length of a part of a buffer above which only the beginnings of its blocks are hashed.
const sampled = 1 << 20

const (
	blocks      = 32  // of a part that is hashed as a whole
	leastBlock  = 64  // bytes
	samples     = 256 // of a longer part
	sampleBytes = 256 // of each block of a longer part
)

var seed = maphash.MakeSeed()

// each calls f for each block of a list of parts with its offset in the list and its bytes that are hashed. It
// reports whether all of them could be read: the memory of a program may be unmapped at any time.
func each(parts [][]byte, f func(offset, length int, b []byte)) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	offset := 0
	for _, b := range parts {
		block, hashed := max((len(b)+blocks-1)/blocks, leastBlock), len(b)
		if len(b) > sampled {
			block, hashed = len(b)/samples, sampleBytes
		}
		for len(b) > 0 {
			n := min(block, len(b))
			f(offset, n, b[:min(n, hashed)])
			b, offset = b[n:], offset+n
		}
	}
	return true
}

// sumsOf hashes a list of parts, and reports whether it could.
func sumsOf(parts [][]byte) (s sums, ok bool) {
	if !each(parts, func(_, _ int, b []byte) { s = append(s, maphash.Bytes(seed, b)) }) {
		return nil, false
	}
	return s, true
}

// changed returns which bytes of the list, whose sums these are, have another content now: the first and the last
// block. It returns "" if none have, or if they cannot be read any more.
func (s sums) changed(parts [][]byte) string {
	i, from, to := 0, -1, 0
	ok := each(parts, func(offset, length int, b []byte) {
		if maphash.Bytes(seed, b) != s[i] {
			if from < 0 {
				from = offset
			}
			to = offset + length
		}
		i++
	})
	if !ok || from < 0 {
		return ""
	}
	return fmt.Sprintf("bytes %d to %d", from, to-1)
}
