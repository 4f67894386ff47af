package drive

import "testing"

func TestModerationIsDueInLongStreamsOnly(t *testing.T) {
	var m moderation
	m.add(moderateAfter - 1)
	if m.due() {
		t.Error("due in what may be a message that somebody waits for")
	}
	m.add(1)
	for range 3 {
		if !m.due() {
			t.Fatal("not due in a long stream")
		}
		m.add(moderateLeast)
	}
	if !m.due() {
		t.Fatal("not due in a long stream")
	}
	m.add(moderateLeast - 1)
	if m.due() || m.due() {
		t.Error("due after a sleep that brought little: the stream is over")
	}
	m.add(moderateAfter - 1)
	if m.due() {
		t.Error("due before the next stream is long")
	}
}

func TestModerationOutlastsShortGaps(t *testing.T) {
	var m moderation
	for range 4 {
		m.add(moderateAfter / 4)
		m.slept(moderateGap)
	}
	if !m.due() {
		t.Error("not due in a long stream with short gaps")
	}
	m.slept(moderateGap + 1)
	m.add(moderateAfter - 1)
	if m.due() {
		t.Error("due soon after a long gap")
	}
}
