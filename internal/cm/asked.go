package cm

import (
	"encoding/binary"
	"time"
)

// What answers no DREQ of a connection that it does not have can still connect:
// by its second REQ, which forged ones seldom have.
const (
	// askedLen requests are remembered, the younger of two that share a place.
	// At 50,000 requests a second the REQ of a peer with the usual time-out of
	// four seconds is still known with one chance in five, each time that it is
	// repeated.
	askedLen = 1 << 17

	// askedAge is how old a request is at least when its sender repeats it,
	// askedTime for how long it is remembered.
	askedAge  = 300 * time.Millisecond
	askedTime = 10 * time.Second

	// Such requests are taken in a burst of againBurst, and one in againEvery.
	againBurst = 4
	againEvery = 250 * time.Millisecond
)

// An askedTable remembers which requests were challenged.
type askedTable struct {
	last time.Duration // when one was noted
	list [askedLen]struct{ sum, at uint32 }
}

// again notes a request, and reports whether it was noted before.
func (t *askedTable) again(now time.Duration, k remoteKey) bool {
	sum := k.sum()
	e := &t.list[sum%askedLen]
	ms := uint32(now.Milliseconds())
	t.last = now
	if age := ms - e.at; e.sum == sum && age < uint32(askedTime.Milliseconds()) {
		return age >= uint32(askedAge.Milliseconds())
	}
	e.sum, e.at = sum, ms
	return false
}

// sum is a hash (FNV-1a). Who finds two requests with the same one has what two
// equal requests would give.
func (k remoteKey) sum() uint32 {
	var b [30]byte
	a := k.peer.Addr().As16()
	copy(b[:], a[:])
	binary.BigEndian.PutUint16(b[16:], k.peer.Port())
	binary.BigEndian.PutUint64(b[18:], k.guid)
	binary.BigEndian.PutUint32(b[26:], k.num)
	h := uint32(2166136261)
	for _, v := range b {
		h = (h ^ uint32(v)) * 16777619
	}
	return h
}
