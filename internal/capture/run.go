package capture

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A Run is what a flight recorder has of packets that differ in their PSN alone: the first one, and how many
// there were.
type Run struct {
	Packets int
	Bytes   uint64        // of payload, of all of them
	Time    time.Duration // from the first to the last
}

const runStart = "a run of "

// String is the comment by which a capture of a flight recorder says that a packet stands for a run.
func (r Run) String() string {
	return fmt.Sprintf(runStart+"%d packets with %d bytes of payload in %v", r.Packets, r.Bytes, r.Time)
}

// maxRun bounds the packets of a run: half of all PSNs.
const maxRun = 1 << 23

// parseRun reads what Run.String writes.
func parseRun(comment string) (r Run, ok bool) {
	if !strings.HasPrefix(comment, runStart) {
		return r, false
	}
	var d string
	if n, err := fmt.Sscanf(comment, runStart+"%d packets with %d bytes of payload in %s", &r.Packets, &r.Bytes, &d); n != 3 || err != nil {
		return r, false
	}
	var err error
	r.Time, err = time.ParseDuration(d)
	return r, err == nil && r.Time >= 0 && r.Packets > 1 && r.Packets <= maxRun && r.Bytes <= math.MaxInt64 && r.String() == comment
}

// IsRun reports whether a comment of a packet is the one that Packet.Run has.
func IsRun(comment string) bool {
	_, ok := parseRun(comment)
	return ok
}
