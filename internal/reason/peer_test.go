package reason

import (
	"strings"
	"testing"
)

func TestOutwardKeepsNumbersOfThisSide(t *testing.T) {
	for r := range All() {
		d := Detail{r, 5, 6}
		got := d.Outward()
		known := strings.HasPrefix(r.String(), "NAK_") && r != NAKSequence && r != NAKNotReady || r == RetryExceeded || r == RNRRetryExceeded ||
			r == NeverAnswered || r == PeerSilent // between the ends
		tells := known || strings.HasPrefix(r.String(), "KEY_") || r == NoReceive || r == ReceiveTooSmall || r == TooManyReads
		if got.Reason != r || tells && got != d || !known && (r/roomSize != responderRoom && r/roomSize != connectionsRoom || r == ReceiveLocalKey) && got != (Detail{Reason: r}) {
			t.Errorf("%v: found %v", r, got)
		}
	}
}

func TestSidesNamesBoth(t *testing.T) {
	own := Detail{NAKRemoteAccess, 0x10, 0x11}
	const alone = "NAK_REMOTE_ACCESS: peer refused access to its memory: message PSN 0x000010, NAK at 0x000011"
	for peer, want := range map[Detail]string{
		{}:                      alone,
		{KeyBounds, 0x40, 80}:   alone + "; the peer says: KEY_BOUNDS: access outside the memory region: region ends at 0x40, access ends at 0x50",
		{ReceiveLocalKey, 0, 0}: alone + "; the peer says: RECEIVE_LOCAL_KEY: receive buffer not writable: L_Key …, address …",
		{1 << 31, 7, 8}:         alone + "; the peer says: reason 2147483648, which this version does not know: expected 7, found 8",
	} {
		if got := Sides(own, peer); got != want {
			t.Errorf("found %q, expected %q", got, want)
		}
	}
}
