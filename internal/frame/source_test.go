package frame

import "testing"

// Whatever a peer's identifications count, only the first batches are a surprise.
func TestSourceLearnsWhatIdentificationsCount(t *testing.T) {
	for _, c := range []struct {
		name      string
		firsts    []uint16 // of batches of 3 packets
		surprises int
	}{
		{"unconnected socket", []uint16{0, 0, 0, 0}, 0},
		{"connected socket", []uint16{700, 701, 702, 703}, 1},
		{"connected socket, wrap", []uint16{0xfffe, 0xffff, 0, 1, 2}, 2},
		{"packets", []uint16{700, 703, 706, 709}, 2},
		{"socket that was disconnected", []uint16{700, 701, 0, 0, 0}, 2},
		{"begins again", []uint16{700, 701, 9, 10, 11}, 2},
	} {
		var s Source
		n := 0
		for _, id := range c.firsts {
			s.Begin()
			if s.next != id {
				n++
			}
			s.learn(id)
			s.next = id + 3
		}
		if n != c.surprises {
			t.Errorf("%s: %d of %d identifications were not expected, want %d", c.name, n, len(c.firsts), c.surprises)
		}
	}
}
