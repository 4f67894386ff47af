package message

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
