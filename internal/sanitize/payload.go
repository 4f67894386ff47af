package sanitize

import (
	"encoding/binary"
	"fmt"
	"slices"

	"softrdma/internal/qp"
)

const (
	searched = 4096 // bytes at the beginning of a message that are searched for keys
	nearby   = 16   // bytes between the beginnings of a key and its address
)

// checkPayload looks for keys that peers cannot use in a message: one of a region, and beside it an address in
// that region, both aligned to 4 bytes in the message and in any byte order. A key alone would be found by chance.
func (s *Sanitizer) checkPayload(what string, parts [][]byte, where []uintptr) {
	if !s.cfg.Rules.Has(KeySent) {
		return
	}
	var b []byte
	each(parts, func(offset, _ int, part []byte) {
		if offset == len(b) && len(b) < searched {
			b = append(b, part...)
		}
	})
	for i := 0; i+4 <= min(len(b), searched); i += 4 {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			x := s.regions[order.Uint32(b[i:])]
			if x == nil || x.usable() || !x.addressed(b, i) {
				continue
			}
			found := fmt.Sprintf("bytes %d to %d of the message of %s are its key, and it grants no remote right", i, i+3, what)
			if x.ended {
				found = fmt.Sprintf("bytes %d to %d of the message of %s are its key", i, i+3, what)
				s.report(KeySent, &x.object, found, where, x.deregistered(), x.registered())
			} else {
				s.report(KeySent, &x.object, found, where, x.registered())
			}
		}
	}
}

// usable reports whether a peer may use the region, by its key or by a window's.
func (r *region) usable() bool {
	return !r.ended && r.Access&(qp.RemoteWrite|qp.RemoteRead|qp.RemoteAtomic|qp.MWBind) != 0
}

// addressed reports whether there is an address of the region beside its key, which begins at index i.
func (r *region) addressed(b []byte, i int) bool {
	for k := max(i%4, i-nearby); k+8 <= min(len(b), i+nearby+8); k += 4 {
		word := b[k : k+8]
		if slices.ContainsFunc([]uint64{binary.LittleEndian.Uint64(word), binary.BigEndian.Uint64(word)}, func(a uint64) bool { return a != 0 && a-r.Base < r.Len() }) {
			return true
		}
	}
	return false
}
