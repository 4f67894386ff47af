package ucx_test

import (
	"sync"
	"testing"
	"time"

	. "github.com/openucx/ucx/bindings/go/src/ucx"
)

// waits calls Wait on a goroutine, and sends its result.
func waits(w *UcpWorker) <-chan error {
	c := make(chan error, 1)
	go func() { c <- w.Wait() }()
	return c
}

// woken waits for the result of a Wait.
func woken(t testing.TB, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("Wait did not return in 30 s")
		return nil
	}
}

// quiet makes a worker handle all pending events.
func quiet(w *UcpWorker) {
	for w.Progress() > 0 || w.Arm() != UCS_OK {
	}
}

// sleeps begins a Wait that does not return by itself. Late events may have ended earlier
// ones.
func sleeps(t testing.TB, w *UcpWorker) <-chan error {
	t.Helper()
	for range 100 {
		quiet(w)
		c := waits(w)
		select {
		case err := <-c:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Millisecond):
			return c
		}
	}
	t.Fatal("Wait returned 100 times without an event")
	return nil
}

func TestSignalEndsWaitBeforeAndAfterItBegins(t *testing.T) {
	w := newWorker(t, (&UcpWorkerParams{}).WakeupTX().WakeupRX())
	quiet(w)
	if err := w.Signal(); err != nil {
		t.Fatal(err)
	}
	if err := woken(t, waits(w)); err != nil {
		t.Fatal(err)
	}
	c := sleeps(t, w)
	if err := w.Signal(); err != nil {
		t.Fatal(err)
	}
	if err := woken(t, c); err != nil {
		t.Fatal(err)
	}
}

func TestMessageWakesAWorker(t *testing.T) {
	each(t, func(t *testing.T) {
		a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
		e := connect(t, a, b, &UcpEpParams{})
		ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, a, b)
		p, _ := native(t, 100_000)
		for _, n := range []uint64{1, 100_000} {
			var done sync.WaitGroup
			received := started(t)(b.RecvTagNonBlocking(p, n, 1, 1, nil))
			sent := started(t)(e.SendTagNonBlocking(1, p, n, nil))
			for w, r := range map[*UcpWorker]*UcpRequest{a: sent, b: received} {
				done.Go(func() {
					for r.GetStatus() == UCS_INPROGRESS {
						if w.Progress() == 0 {
							if err := woken(t, waits(w)); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			done.Wait()
			if sent.GetStatus() != UCS_OK || received.GetStatus() != UCS_OK {
				t.Fatal(sent.GetStatus(), received.GetStatus())
			}
		}
	})
}

func TestWaitReturnsForARequestThatEndedInProgressAndThenSleeps(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, a, b)
	if err := woken(t, waits(a)); err != nil { // for the flush, whatever came after it
		t.Fatal(err)
	}
	c := sleeps(t, a)
	if err := a.Signal(); err != nil {
		t.Fatal(err)
	}
	if err := woken(t, c); err != nil {
		t.Fatal(err)
	}
}

func TestSignalWakesAllWaiters(t *testing.T) {
	w := newWorker(t, &UcpWorkerParams{})
	quiet(w)
	var all []<-chan error
	for range 3 {
		all = append(all, waits(w))
	}
	until(t, "all sleep", func() bool { return w.Waiters() == len(all) })
	if err := w.Signal(); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if err := woken(t, c); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseEndsWait(t *testing.T) {
	w := newWorker(t, &UcpWorkerParams{})
	c := sleeps(t, w)
	w.Close()
	refused(t, nil, woken(t, c), UCS_ERR_CANCELED)
	refused(t, nil, w.Wait(), UCS_ERR_CANCELED)
	if n := w.Progress(); n != 0 {
		t.Errorf("progress of a closed worker is %d", n)
	}
	_, err := w.NewEndpoint((&UcpEpParams{}).SetUcpAddress(&UcpAddress{Address: new(byte), Length: 1}))
	refused(t, nil, err, UCS_ERR_CANCELED)
}
