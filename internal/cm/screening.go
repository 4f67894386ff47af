package cm

import (
	"encoding/binary"
	"time"
)

// A peer that does not answer a DREQ for an unknown connection can still connect,
// with its second REQ. A forged REQ is rarely repeated.
const (
	// askedLen is the number of entries; of two requests that share an entry the
	// newer one stays. At 50,000 requests a second, a REQ that is repeated after
	// the usual timeout of four seconds is still known with a probability of one in
	// five.
	askedLen = 1 << 17

	// askedAge is the minimum age of a request at which it counts as repeated, and
	// askedTime how long a request is remembered.
	askedAge  = 300 * time.Millisecond
	askedTime = 10 * time.Second

	// againBurst repeated requests are accepted at once, plus one per againEvery.
	againBurst = 4
	againEvery = 250 * time.Millisecond
)

// An askedTable remembers which requests were challenged.
type askedTable struct {
	last time.Duration // when a request was last noted
	list [askedLen]struct{ sum, at uint32 }
}

// again notes a request and reports whether it is a repetition of an earlier one.
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

// sum returns a hash (FNV-1a). An attacker gains nothing from a collision: it only makes
// two requests count as one that was repeated.
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
