package measure

import (
	"slices"
	"testing"
	"time"
)

// Messages that complete within the margin at either end are sent, but not counted.
func TestFlowCountsBetweenMargins(t *testing.T) {
	set := &Settings{Seconds: 10, Margin: 2}
	f := &Flow{set: set, size: 100, senders: make([]sender, 2)}
	f.countFrom, f.countTo = set.countedInterval()
	for _, c := range []struct {
		at    time.Duration
		qp, n int
	}{
		{0, 0, 1}, {1999 * time.Millisecond, 1, 2}, // before
		{2 * time.Second, 0, 4}, {5 * time.Second, 1, 8}, {7999 * time.Millisecond, 0, 16},
		{8 * time.Second, 0, 32}, {11 * time.Second, 1, 64}, // after
	} {
		f.listCompleted(listID(peakLists, c.qp, c.n), c.at)
	}
	r := FlowResult{Seconds: 11}
	f.sum(&r)
	if r.Messages != 127 || !slices.Equal(r.Counted, []int64{20, 8}) || r.Bytes != 2800 || r.Seconds != 6 {
		t.Errorf("found %+v, expected 127 messages, of which 20 and 8 count in 6 seconds", r)
	}
}

func TestFlowWithoutMarginCountsAll(t *testing.T) {
	f := &Flow{set: &Settings{Seconds: 10}, size: 100, senders: make([]sender, 1)}
	f.countFrom, f.countTo = f.set.countedInterval()
	f.listCompleted(listID(peakLists, 0, 3), 0)
	f.listCompleted(listID(peakLists, 0, 5), 12*time.Second)
	r := FlowResult{Seconds: 12}
	f.sum(&r)
	if r.Messages != 8 || !slices.Equal(r.Counted, []int64{8}) || r.Seconds != 12 {
		t.Errorf("found %+v, expected 8 messages in 12 seconds", r)
	}
}
