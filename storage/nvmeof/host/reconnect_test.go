package host_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

func TestClosedNamespaceEndsItsCommands(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		e := r.serve(d)
		s, n := r.connect(host.Config{LossTimeout: time.Hour}, e)
		other, err := s.Namespace(r.t.Context(), 1)
		if err != nil {
			r.t.Fatal(err)
		}
		e.stop()
		time.Sleep(5 * time.Second)
		ended := make(chan error, 1)
		go func() {
			_, err := n.ReadAt(make([]byte, 512), 0)
			ended <- err
		}()
		time.Sleep(time.Second)
		if err := n.Close(); err != nil {
			r.t.Error(err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "the program has closed the namespace") {
			r.t.Errorf("a command that waits: %v", err)
		}
		e.start(nqn, d)
		time.Sleep(5 * time.Second)
		if _, err := other.ReadAt(make([]byte, 512), 0); err != nil {
			r.t.Errorf("another use of the namespace: %v", err)
		}
		if _, err := n.ReadAt(make([]byte, 512), 0); err == nil || !strings.Contains(err.Error(), "the program has closed the namespace") {
			r.t.Errorf("a command after Close: %v", err)
		}
		if err := n.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

// TestClosedNamespacesAreForgotten: a program may open them again and again.
func TestClosedNamespacesAreForgotten(t *testing.T) {
	simulate(t, func(r *rig) {
		s, _ := r.connect(host.Config{}, r.serve(newDisk(r.t)))
		var last weak.Pointer[host.Namespace]
		for range 3 {
			n, err := s.Namespace(r.t.Context(), 1)
			if err != nil {
				r.t.Fatal(err)
			}
			if err := n.Close(); err != nil {
				r.t.Fatal(err)
			}
			last = weak.Make(n)
		}
		for range 3 {
			runtime.GC()
		}
		if last.Value() != nil {
			r.t.Error("the controller keeps a namespace that is closed")
		}
	})
}

// Programs notice nothing of a target that ends and begins again but the time that it takes.
func TestCommandsAreRepeatedAfterReconnect(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		e := r.serve(d)
		_, n := r.connect(host.Config{LossTimeout: time.Minute, Queues: 2, QueueSize: 4}, e)
		l := r.load(n, 20*time.Millisecond)
		const rounds = 5
		for range rounds {
			time.Sleep(100 * time.Millisecond)
			e.stop()
			time.Sleep(5 * time.Second)
			e.start(nqn, d)
			time.Sleep(5 * time.Second)
		}
		if count := l.end(r.t); count < rounds*loaders {
			r.t.Errorf("%d accesses", count)
		}
		if lost, again := r.happened(host.Lost), r.happened(host.Connected); lost != rounds || again != rounds {
			r.t.Errorf("lost %d times, connected again %d times", lost, again)
		}
	})
}

// A command waits at most for the loss timeout, and for less if the program says so.
func TestCommandsFailWhenTheConnectionIsLostForGood(t *testing.T) {
	for _, x := range []struct {
		cfg  host.Config
		want time.Duration
	}{
		{host.Config{}, 0},
		{host.Config{LossTimeout: 30 * time.Second}, 30 * time.Second},
		{host.Config{LossTimeout: -1, FastFail: 7 * time.Second}, 7 * time.Second},
	} {
		simulate(t, func(r *rig) {
			d := newDisk(r.t)
			e := r.serve(d)
			_, n := r.connect(x.cfg, e)
			e.stop()
			began := time.Now()
			_, err := n.ReadAt(make([]byte, 512), 0)
			var lost *host.LostError
			var failed *status.Error
			if took := time.Since(began); !errors.As(err, &lost) || !errors.As(err, &failed) || failed.Status != status.HostPathError || took.Round(time.Second) != x.want {
				r.t.Errorf("%+v: got %v after %v", x.cfg, err, took)
			}
			e.start(nqn, d)
			time.Sleep(2 * time.Second)
			_, err = n.ReadAt(make([]byte, 512), 0)
			if back := x.cfg.LossTimeout < 0; back != (err == nil) {
				r.t.Errorf("%+v: after the target has come back: %v", x.cfg, err)
			}
		})
	}
}

// A target that does not allow the host any more ends the attempts, as in Linux.
func TestAttemptsEndWhenTheControllerSaysSo(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		e := r.serve(d)
		_, n := r.connect(host.Config{LossTimeout: -1}, e)
		e.stop()
		e.start("nqn.2024-01.org.example:other", d)
		if _, err := n.ReadAt(make([]byte, 512), 0); err == nil || !strings.Contains(err.Error(), "NVME_SC_CONNECT_INVALID_PARAM") {
			r.t.Errorf("got %v", err)
		}
		if r.happened(host.Failed) != 1 || r.happened(host.GivenUp) != 1 {
			r.t.Errorf("events %v", r.events)
		}
	})
}

// A command without completion ends its connection, and is repeated by the next one.
func TestCommandWithoutCompletionIsRepeated(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		held := make(chan struct{})
		e := r.serve(d)
		_, n := r.connect(host.Config{LossTimeout: -1, CommandTimeout: 4 * time.Second, KeepAlive: -1}, e)
		d.set(func(bool) error {
			d.set(nil)
			<-held
			return nil
		})
		began := time.Now()
		if _, err := n.WriteAt(bytes.Repeat([]byte{7}, 32<<10), 0); err != nil {
			r.t.Error(err)
		}
		if took := time.Since(began); took < 4*time.Second || took > 7*time.Second {
			r.t.Errorf("took %v", took)
		}
		close(held)
		if lost := r.happened(host.Lost); lost != 1 {
			r.t.Errorf("lost %d times", lost)
		}
	})
}

// Commands are repeated whose status allows it, and no others.
func TestFailedCommandsAreRepeatedIfTheStatusAllowsIt(t *testing.T) {
	for _, x := range []struct {
		fails    int // accesses
		status   status.Status
		accesses int
		works    bool
	}{
		{2, status.ReadError, 3, true},
		{9, status.ReadError, 6, false},
		{2, status.ReadError | status.DoNotRetry, 1, false},
		{2, status.InternalPath, 3, true},
		{1, status.ReadError, 1, false},
	} {
		simulate(t, func(r *rig) {
			d := newDisk(r.t)
			cfg := host.Config{}
			if x.fails == 1 {
				cfg.Repeats = -1
			}
			_, n := r.connect(cfg, r.serve(d))
			left := x.fails
			d.set(func(bool) error {
				if left--; left >= 0 {
					return &status.Error{Status: x.status}
				}
				return nil
			})
			_, err := n.ReadAt(make([]byte, 512), 0)
			var failed *status.Error
			if x.works != (err == nil) || err != nil && (!errors.As(err, &failed) || failed.Status&^status.More != x.status) || d.accesses() != x.accesses {
				r.t.Errorf("%+v: got %v after %d accesses", x, err, d.accesses())
			}
		})
	}
}

// A call whose context ends gives the caller its memory back, and the queue keeps its slots.
func TestCancelledCommandsLeaveMemoryAndSlots(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		_, n := r.connect(host.Config{QueueSize: 4}, r.serve(d))
		if _, err := n.WriteAt(bytes.Repeat([]byte{7}, 4096), 0); err != nil {
			r.t.Fatal(err)
		}
		m, err := n.Alloc(4096)
		if err != nil {
			r.t.Fatal(err)
		}
		for round := range 5 {
			held := make(chan struct{})
			d.set(func(bool) error {
				<-held
				return nil
			})
			calls := 6 // more than there are slots
			direct := round%2 == 1
			if direct {
				calls = 1
			}
			ended := make(chan error, calls)
			for range calls {
				go func() {
					ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
					defer cancel()
					b, began := make([]byte, 4096), time.Now()
					if direct {
						b = m.Bytes()
						clear(b)
					}
					_, err := n.ReadContext(ctx, b, 0)
					took := time.Since(began)
					time.Sleep(time.Second) // later, when the target has answered
					switch {
					case direct && (err != nil || took.Round(time.Second) != 10*time.Second || b[0] != 7):
						err = errors.Join(errors.New("registered memory"), err)
					case direct:
						err = context.DeadlineExceeded
					case took != time.Second || b[0] != 0:
						err = errors.Join(errors.New("memory was written after the call"), err)
					}
					ended <- err
				}()
			}
			time.Sleep(10 * time.Second)
			close(held)
			d.set(nil)
			for range calls {
				if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
					r.t.Error(err)
				}
			}
		}
		if err := m.Free(); err != nil {
			r.t.Error(err)
		}
	})
}

// A call whose context ends while there is no connection leaves nothing that waits for one.
func TestCancelledCommandsDoNotWaitForConnections(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		e := r.serve(d)
		_, n := r.connect(host.Config{LossTimeout: -1}, e)
		e.stop()
		time.Sleep(time.Second)
		call := func() weak.Pointer[[4096]byte] {
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
			defer cancel()
			b := new([4096]byte)
			if _, err := n.WriteContext(ctx, b[:], 0); !errors.Is(err, context.DeadlineExceeded) {
				r.t.Errorf("without a connection: %v", err)
			}
			return weak.Make(b)
		}
		memory := []weak.Pointer[[4096]byte]{call(), call(), call()}
		runtime.GC()
		for i, p := range memory {
			if p.Value() != nil {
				r.t.Errorf("the host still has the memory of call %d", i)
			}
		}
		e.start(nqn, d)
		if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
			r.t.Error(err)
		}
	})
}

// Requests that are submitted are done once each, also when connections end.
func TestSubmittedRequestsAreDoneOnce(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		e := r.serve(d)
		_, n := r.connect(host.Config{LossTimeout: -1, QueueSize: 8}, e)
		m, err := n.Alloc(64 << 10)
		if err != nil {
			r.t.Fatal(err)
		}
		const depth = 16
		const each = 200
		done := make(chan error)
		for i := range depth {
			left := each
			q := &host.Request{Write: i%2 == 0, Data: m.Bytes()[i*4096:][:4096], Offset: int64(i * 4096)}
			q.Done = func(q *host.Request) {
				err := q.Err
				if left--; left > 0 && err == nil {
					if err = n.Submit(q); err == nil {
						return
					}
				}
				done <- err
			}
			if err := n.Submit(q); err != nil {
				r.t.Fatal(err)
			}
		}
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for range 3 {
				time.Sleep(100 * time.Microsecond)
				e.stop()
				e.start(nqn, d)
				time.Sleep(3 * time.Second)
			}
		}()
		for range depth {
			if err := <-done; err != nil {
				r.t.Error(err)
			}
		}
		<-stopped
		if err := m.Free(); err != nil {
			r.t.Error(err)
		}
		for _, wrong := range []*host.Request{{}, {Data: make([]byte, 100)}, {Data: make([]byte, 256<<10)}, {Data: make([]byte, 512), Offset: 5}} {
			if n.Submit(wrong) == nil {
				r.t.Errorf("a request of %d bytes at %d was accepted", len(wrong.Data), wrong.Offset)
			}
		}
	})
}

// Connections that end and are made again leave no object.
func TestReconnectsLeaveNothing(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		e := r.serve(d)
		s, n := r.connect(host.Config{LossTimeout: -1, Queues: 3}, e)
		m, err := n.Alloc(4096)
		if err != nil {
			r.t.Fatal(err)
		}
		before := r.host.Device.Counts()
		for range 5 {
			e.stop()
			e.start(nqn, d)
			if _, err := n.ReadAt(m.Bytes(), 0); err != nil {
				r.t.Fatal(err)
			}
		}
		if after := r.host.Device.Counts(); after != before {
			r.t.Errorf("objects: %+v, before %+v", after, before)
		}
		if err := errors.Join(m.Free(), s.Close()); err != nil {
			r.t.Error(err)
		}
		if left := r.host.Device.Counts(); left != (verbs.Counts{}) {
			r.t.Errorf("left: %+v", left)
		}
	})
}
