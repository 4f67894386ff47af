package message

import "slices"

// Cut cuts a message into pieces that are contiguous in memory at both ends, of at most most bytes. It
// calls f with each, and where it is among the peer's segments. Own has at least as many bytes as they.
func Cut(own [][]byte, peers []Segment, most int, f func(segment, at int, b []byte)) {
	var piece []byte
	for i := range peers {
		for at := 0; at < peers[i].Length; {
			for len(piece) == 0 {
				piece, own = own[0], own[1:]
			}
			n := min(peers[i].Length-at, len(piece), most)
			f(i, at, piece[:n])
			piece = piece[n:]
			at += n
		}
	}
}

// Few returns pieces of which few enough are not empty to name each for all rails. It reports whether it
// had to join them.
func Few(pieces [][]byte, rails int) (_ [][]byte, joined bool) {
	most := MaxSegments / rails
	if len(pieces) <= most {
		return pieces, false
	}
	filled := 0
	for _, b := range pieces {
		if len(b) > 0 {
			filled++
		}
	}
	if filled <= most {
		return pieces, false
	}
	return [][]byte{slices.Concat(pieces...)}, true
}

// Scatter copies bytes to a buffer in pieces.
func Scatter(to [][]byte, from []byte) {
	for _, b := range to {
		from = from[copy(b, from):]
	}
}
