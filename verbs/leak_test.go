package verbs_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"softrdma/verbs"
)

// The addresses of the tests of this file.
const (
	leakA = "127.7.1.1"
	leakB = "127.7.1.2"
)

// usage counts the resources of a process that devices could leak.
type usage struct{ goroutines, descriptors int }

func use() (u usage) {
	u.goroutines = runtime.NumGoroutine()
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.descriptors = len(list)
	}
	return u
}

// noLeak fails unless the process returns to its previous usage. Goroutines may take a moment
// to end.
func noLeak(t *testing.T, before usage) {
	t.Helper()
	var now usage
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now = use(); now.goroutines <= before.goroutines && now.descriptors <= before.descriptors {
			return
		}
	}
	stacks := make([]byte, 1<<16)
	t.Fatalf("leaked: expected %+v, found %+v\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
}

// A zoo is a device with an object of every kind. Its queue pair is connected to itself.
type zoo struct {
	dev  *verbs.Device
	pd   *verbs.PD
	ch   *verbs.CompChannel
	cq   *verbs.CQ // with its own channel
	cqCh *verbs.CQ // with ch
	srq  *verbs.SRQ
	mem  *verbs.Memory
	mr   *verbs.MR
	mw   *verbs.MW
	ah   *verbs.AH
	qp   *verbs.QP // RC, to itself
	qpS  *verbs.QP // RC with srq, in RESET
	ud   *verbs.QP
}

func newZoo(t testing.TB, addr string) *zoo {
	t.Helper()
	z := &zoo{}
	var err error
	check := func(e error) {
		t.Helper()
		if e != nil {
			t.Fatal(e)
		}
	}
	z.dev = openDevice(t, addr, verbs.Config{})
	z.pd, err = z.dev.AllocPD()
	check(err)
	z.ch, err = z.dev.CreateCompChannel()
	check(err)
	z.cq, err = z.dev.CreateCQ(verbs.CQConfig{Depth: 1024})
	check(err)
	z.cqCh, err = z.dev.CreateCQ(verbs.CQConfig{Channel: z.ch})
	check(err)
	z.srq, err = z.pd.CreateSRQ(verbs.SRQConfig{})
	check(err)
	z.mem, err = verbs.AllocMemory(1<<16, verbs.AllocConfig{})
	check(err)
	z.mr, err = z.pd.RegisterMemory(z.mem.Bytes(), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.MWBind)
	check(err)
	z.mw, err = z.pd.AllocMW(verbs.MWType1)
	check(err)
	z.ah, err = z.pd.CreateAH(vector(z.dev))
	check(err)
	z.qp, err = z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: z.cq})
	check(err)
	z.qpS, err = z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: z.cqCh, SRQ: z.srq})
	check(err)
	z.ud, err = z.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: z.cq})
	check(err)
	e := z.qp.Endpoint()
	check(z.qp.Connect(e, e, verbs.ConnectConfig{}))
	return z
}

// write posts a WRITE within the device.
func (z *zoo) write() error {
	return z.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{z.mr.SGE(0, 8192)}, RemoteAddr: z.mr.Addr() + 32768, RKey: z.mr.RKey(),
	})
}

// destroy destroys every object, in a permitted order.
func (z *zoo) destroy() error {
	return errors.Join(z.qp.Destroy(), z.qpS.Destroy(), z.ud.Destroy(), z.ah.Destroy(), z.mw.Dealloc(), z.mr.Deregister(),
		z.srq.Destroy(), z.cq.Destroy(), z.cqCh.Destroy(), z.ch.Destroy(), z.pd.Dealloc())
}

func TestDevicesAndObjectsLeaveNothing(t *testing.T) {
	newZoo(t, leakA).dev.Close() // for objects that are made once per process
	before := use()
	for i := range 40 {
		z := newZoo(t, leakA)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if err := errors.Join(z.write(), z.cq.Wait(ctx)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if i%2 == 0 {
			if err := z.destroy(); err != nil {
				t.Fatal(err)
			}
			if c := z.dev.Counts(); c != (verbs.Counts{}) {
				t.Fatalf("objects left: %+v", c)
			}
		}
		if err := z.dev.Close(); err != nil {
			t.Fatal(err)
		}
		// Closing the device releases its hold on memory, with or without deregistration.
		if err := z.mem.Free(); err != nil {
			t.Fatal(err)
		}
	}
	noLeak(t, before)
}

func TestObjectsOfOneDeviceLeaveNothing(t *testing.T) {
	z := newZoo(t, leakA)
	defer z.dev.Close()
	before, counts := use(), z.dev.Counts()
	for range 200 {
		cq, err := z.dev.CreateCQ(verbs.CQConfig{})
		if err != nil {
			t.Fatal(err)
		}
		q, err := z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		mr, err := z.pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		e := q.Endpoint()
		if err := q.Connect(e, e, verbs.ConnectConfig{}); err != nil {
			t.Fatal(err)
		}
		err = q.PostSend(verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 8, RKey: mr.RKey()})
		if err := errors.Join(err, q.Destroy(), mr.Deregister(), cq.Destroy()); err != nil {
			t.Fatal(err)
		}
	}
	if c := z.dev.Counts(); c != counts {
		t.Fatalf("objects: expected %+v, found %+v", counts, c)
	}
	noLeak(t, before)
}

// Refused creations must not leave anything behind either.
func TestRefusedCreationLeavesNothing(t *testing.T) {
	z, other := newZoo(t, leakA), newZoo(t, leakB)
	defer z.dev.Close()
	counts := z.dev.Counts()
	for name, err := range map[string]error{
		"CQ with another device's channel": second(z.dev.CreateCQ(verbs.CQConfig{Channel: other.ch})),
		"CQ too deep":                      second(z.dev.CreateCQ(verbs.CQConfig{Depth: verbs.MaxCQDepth + 1})),
		"QP with another device's CQ":      second(z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: other.cq})),
		"QP of no type":                    second(z.pd.CreateQP(verbs.QPConfig{SendCQ: z.cq})),
		"QP too deep":                      second(z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: z.cq, MaxSend: verbs.MaxQueueDepth + 1})),
		"SRQ with too high a limit":        second(z.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8, Limit: 1000})),
		"MR of rights that do not fit":     second(z.pd.RegisterMemory(make([]byte, 8), verbs.RemoteWrite)),
		"MW of no type":                    second(z.pd.AllocMW(3)),
		"AH without a destination":         second(z.pd.CreateAH(verbs.AddressVector{})),
	} {
		if err == nil {
			t.Errorf("%s: created", name)
		}
	}
	if c := z.dev.Counts(); c != counts {
		t.Errorf("objects: expected %+v, found %+v", counts, c)
	}
	other.dev.Close()
}

func second[T any](_ T, err error) error { return err }

// A device closes while all kinds of calls are in progress.
func TestCloseEndsOngoingCalls(t *testing.T) {
	newZoo(t, leakA).dev.Close()
	before, rounds := use(), 20
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		z := newZoo(t, leakA)
		var all sync.WaitGroup
		until := func(f func() error) {
			all.Add(1)
			go func() {
				defer all.Done()
				for {
					if err := f(); errors.Is(err, verbs.ErrClosed) {
						return
					}
				}
			}()
		}
		wcs := make([]verbs.WC, 4)
		until(z.write)
		until(z.write)
		until(func() error { return second(z.cq.Poll(wcs)) })
		until(func() error { return second(z.cqCh.Poll(make([]verbs.WC, 1))) })
		until(func() error { return z.cq.Wait(t.Context()) })
		until(func() error { return z.cq.WaitSolicited(t.Context()) })
		until(func() error { return second(z.ch.Next(t.Context())) })
		until(func() error { return second(z.dev.NextEvent(t.Context())) })
		until(func() error { return z.srq.PostRecv(verbs.RecvWR{}) })
		until(func() error { return z.cq.Resize(1024) })
		until(func() error { z.qp.State(); return z.ud.ToReset() })
		until(func() error {
			mr, err := z.pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite)
			if err != nil {
				return err
			}
			return mr.Deregister()
		})
		until(func() error {
			q, err := z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: z.cqCh})
			if err != nil {
				return err
			}
			return q.Destroy()
		})
		time.Sleep(time.Millisecond)
		for range 2 {
			all.Add(1)
			go func() {
				defer all.Done()
				if err := z.dev.Close(); err != nil {
					t.Error(err)
				}
				// A device can be opened again immediately after it is closed.
				if d, err := verbs.Open(leakB, verbs.Config{}); err == nil {
					d.Close()
				}
			}()
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			stacks := make([]byte, 1<<16)
			t.Fatalf("still going on after Close:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
		if err := z.mem.Free(); err != nil {
			t.Fatal(err)
		}
	}
	noLeak(t, before)
}

func TestSecondCloseWaitsForTheFirst(t *testing.T) {
	for range 20 {
		z := newZoo(t, leakA)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := z.dev.Close(); err != nil {
					t.Error(err)
				}
				if n := countClosed(z); n != 0 {
					t.Errorf("closed, and %d of its calls do not say so", n)
				}
			})
		}
		all.Wait()
	}
}

func countClosed(z *zoo) (n int) {
	for _, err := range []error{z.write(), second(z.cqCh.Poll(make([]verbs.WC, 1))), z.qp.ToErr(), second(z.dev.AllocPD())} {
		if !errors.Is(err, verbs.ErrClosed) {
			n++
		}
	}
	return n
}
