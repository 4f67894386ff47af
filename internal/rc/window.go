package rc

// A window bounds what a requester has in flight. The specification leaves
// that to end-to-end credits, which count messages (IBTA 9.7.7.2) and which
// neither Linux nor softrdma uses; what a software receiver runs out of is
// the buffer of its socket, which all connections to it share. So the window
// follows what arrives: it grows with what is acknowledged, up to the port's,
// and halves when packets were lost.
type window struct {
	size      int    // bytes, with overhead
	threshold int    // below it the window grows by all that is acknowledged
	part      int    // of a byte of growth, in units of 1/size
	counted   uint32 // acknowledged bytes that it has grown by
}

// initialWindow is what a new connection sends before it knows its peer.
const initialWindow = 128 << 10

func (w *window) start(limit int) {
	*w = window{size: min(initialWindow, limit), threshold: limit}
}

// grow follows progress up to acked bytes in all.
func (w *window) grow(acked, mtu uint32, limit int) {
	n := int(acked - w.counted)
	w.counted = acked
	if w.size >= w.threshold && w.size > 0 {
		w.part += n * int(mtu)
		n = w.part / w.size // one packet for each window
		w.part -= n * w.size
	}
	w.size = min(w.size+n, limit)
}

// shrink follows a loss. A few packets may always be in flight.
func (w *window) shrink(mtu uint32, limit int) {
	w.threshold = min(max(w.size/2, 4*int(mtu+overhead)), limit)
	w.size = w.threshold
}
