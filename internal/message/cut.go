package message

import "slices"

// Cut cuts a message into pieces of at most limit bytes that are contiguous in memory at both
// ends. It calls f with each piece and its place in the peer's segments. own has at least as
// many bytes as peers.
func Cut(own [][]byte, peers []Segment, limit int, f func(segment, at int, b []byte)) {
	var piece []byte
	for i := range peers {
		for at := 0; at < peers[i].Length; {
			for len(piece) == 0 {
				piece, own = own[0], own[1:]
			}
			n := min(peers[i].Length-at, len(piece), limit)
			f(i, at, piece[:n])
			piece = piece[n:]
			at += n
		}
	}
}

// Few returns nonempty pieces, few enough to list each for all rails. It reports whether it
// had to join pieces.
func Few(pieces [][]byte, rails int) (_ [][]byte, joined bool) {
	limit := MaxSegments / rails
	if len(pieces) <= limit {
		return pieces, false
	}
	filled := 0
	for _, b := range pieces {
		if len(b) > 0 {
			filled++
		}
	}
	if filled <= limit {
		return pieces, false
	}
	return [][]byte{slices.Concat(pieces...)}, true
}

// Scatter copies bytes into a buffer in pieces.
func Scatter(to [][]byte, from []byte) {
	for _, b := range to {
		from = from[copy(b, from):]
	}
}
