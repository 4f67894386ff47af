package honest

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"softrdma/verbs"
)

// Meanwhile runs rounds of honest traffic during the attack, at least one, and one
// after it. It fails the test if attack returns an error.
func Meanwhile(t testing.TB, attack func() error, round func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- attack() }()
	for rounds := 1; ; rounds++ {
		round()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("the attack: %v", err)
			}
			round()
			t.Logf("%d rounds of honest traffic", rounds+1)
			return
		default:
		}
	}
}

// Refusals returns a device's counters of refusals by reason.
func Refusals(d *verbs.Device) map[string]uint64 {
	m := make(map[string]uint64)
	for name, n := range d.Counters() {
		m[name] = n
	}
	return m
}

// Refused waits until a device has counted n more refusals with the given names than
// before, and returns an error if it does not in time.
func Refused(d *verbs.Device, before map[string]uint64, n uint64, names ...string) error {
	for end := time.Now().Add(timeLimit); ; time.Sleep(time.Millisecond) {
		now, more := Refusals(d), uint64(0)
		for _, name := range names {
			more += now[name] - before[name]
		}
		if more >= n {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%v: expected %d more, found %d; before %v, now %v", names, n, more, before, now)
		}
	}
}

// Counted is like Refused, but fails the test.
func Counted(t testing.TB, d *verbs.Device, before map[string]uint64, name string, n uint64) {
	t.Helper()
	if err := Refused(d, before, n, name); err != nil {
		t.Fatal(err)
	}
}

// warm opens a socket once, so that the descriptors of Go's poller exist before
// they are counted.
var warm = sync.OnceFunc(func() {
	if c, err := net.ListenPacket("udp", "127.0.0.1:0"); err == nil {
		c.Close()
	}
})

// LeavesNothing checks at the end of the test that the process has no more goroutines
// and descriptors than now. Call it first, so that other cleanup functions run before
// the check.
func LeavesNothing(t testing.TB) {
	t.Helper()
	warm()
	goroutines, descriptors := runtime.NumGoroutine(), Descriptors()
	t.Cleanup(func() {
		for end := time.Now().Add(timeLimit); ; time.Sleep(5 * time.Millisecond) {
			g, d := runtime.NumGoroutine(), Descriptors()
			if g <= goroutines && d <= descriptors {
				return
			}
			if time.Now().After(end) {
				b := make([]byte, 1<<20)
				t.Errorf("goroutines: expected %d, found %d; descriptors: expected %d, found %d\n%s",
					goroutines, g, descriptors, d, b[:runtime.Stack(b, true)])
				return
			}
		}
	})
}

// Descriptors returns the number of open descriptors of the process, or 0 if the
// system does not report it.
func Descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}
