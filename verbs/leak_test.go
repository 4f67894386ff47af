package verbs_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/verbs"
)

// The addresses of the tests of this file.
const (
	leakA = "127.7.1.1"
	leakB = "127.7.1.2"
)

// usage is what a process has that devices could leak.
type usage struct{ goroutines, descriptors int }

func use() (u usage) {
	u.goroutines = runtime.NumGoroutine()
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.descriptors = len(list)
	}
	return u
}

// noLeak fails unless the process comes back to what it had: goroutines may
// take a moment to end.
func noLeak(t *testing.T, before usage) {
	t.Helper()
	var now usage
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now = use(); now.goroutines <= before.goroutines && now.descriptors <= before.descriptors {
			return
		}
	}
	stacks := make([]byte, 1<<16)
	t.Fatalf("leaked: expected %+v, found %+v\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
}

// A zoo is a device with an object of every kind; the queue pair is connected
// to itself.
type zoo struct {
	dev  *verbs.Device
	pd   *verbs.PD
	ch   *verbs.CompChannel
	cq   *verbs.CQ // with a channel of its own
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
	z.ah, err = z.pd.CreateAH(verbs.AddressVector{DGID: z.dev.GID()})
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

// write posts a WRITE that stays within the device.
func (z *zoo) write() error {
	return z.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{z.mr.SGE(0, 8192)}, RemoteAddr: z.mr.Addr() + 32768, RKey: z.mr.RKey(),
	})
}

// destroy gives every object up, in an order that is allowed.
func (z *zoo) destroy() error {
	return errors.Join(z.qp.Destroy(), z.qpS.Destroy(), z.ud.Destroy(), z.ah.Destroy(), z.mw.Dealloc(), z.mr.Deregister(),
		z.srq.Destroy(), z.cq.Destroy(), z.cqCh.Destroy(), z.ch.Destroy(), z.pd.Dealloc())
}

func TestDevicesAndObjectsLeaveNothing(t *testing.T) {
	newZoo(t, leakA).dev.Close() // what is made once per process
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
			if c := z.dev.Counts(); c != (adapter.Counts{}) {
				t.Fatalf("objects left: %+v", c)
			}
		}
		if err := z.dev.Close(); err != nil {
			t.Fatal(err)
		}
		// With the device its hold on memory has ended, deregistered or not.
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

// Refused creations must leave nothing behind either.
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

// A device that closes under everything that can be going on.
func TestCloseEndsWhatIsGoingOn(t *testing.T) {
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
				// Whoever closes may open again at once.
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

// calls are all public methods of a device's objects. Each gives the error
// that the method returned, nil for those without one.
func (z *zoo) calls() map[any]map[string]func() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	time.AfterFunc(5*time.Second, cancel)
	wcs := make([]verbs.WC, 1)
	no := func(f func()) func() error { return func() error { f(); return nil } }
	e := verbs.Endpoint{QPN: z.qp.Number(), GID: z.dev.GID()}
	group := verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}.Addr()
	return map[any]map[string]func() error{
		z.dev: {
			"AllocPD":           func() error { return second(z.dev.AllocPD()) },
			"CreateCQ":          func() error { return second(z.dev.CreateCQ(verbs.CQConfig{})) },
			"CreateCompChannel": func() error { return second(z.dev.CreateCompChannel()) },
			"Capture":           func() error { return second(z.dev.Capture(&discard{})) },
			"NextEvent":         func() error { return second(z.dev.NextEvent(ctx)) },
			"Close":             z.dev.Close,
			"Addr":              no(func() { z.dev.Addr() }),
			"Counters":          no(func() { counter(z.dev, "") }),
			"Counts":            no(func() { z.dev.Counts() }),
			"Explain":           no(func() { z.dev.Explain() }),
			"GID":               no(func() { z.dev.GID() }),
			"GIDs":              no(func() { z.dev.GIDs() }),
			"Name":              no(func() { z.dev.Name() }),
			"Query":             no(func() { z.dev.Query() }),
			"QueryPort":         no(func() { z.dev.QueryPort() }),
		},
		z.pd: {
			"AllocMW":        func() error { return second(z.pd.AllocMW(verbs.MWType2)) },
			"CreateAH":       func() error { return second(z.pd.CreateAH(verbs.AddressVector{DGID: z.dev.GID()})) },
			"CreateQP":       func() error { return second(z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: z.cq})) },
			"CreateSRQ":      func() error { return second(z.pd.CreateSRQ(verbs.SRQConfig{})) },
			"RegisterMemory": func() error { return second(z.pd.RegisterMemory(make([]byte, 8), verbs.LocalWrite)) },
			"Dealloc":        z.pd.Dealloc,
			"Device":         no(func() { z.pd.Device() }),
		},
		z.cq: {
			"Poll":          func() error { return second(z.cq.Poll(wcs)) },
			"Wait":          func() error { return z.cq.Wait(ctx) },
			"WaitSolicited": func() error { return z.cq.WaitSolicited(ctx) },
			"Resize":        func() error { return z.cq.Resize(2048) },
			"Destroy":       z.cq.Destroy,
			"Arm":           no(func() { z.cq.Arm(true); z.cq.Arm(false) }),
			"Depth":         no(func() { z.cq.Depth() }),
		},
		z.qp: {
			"PostSend":        z.write,
			"PostRecv":        func() error { return z.qp.PostRecv(verbs.RecvWR{}) },
			"Connect":         func() error { return z.qp.Connect(e, e, verbs.ConnectConfig{}) },
			"ToInit":          func() error { return z.qp.ToInit(verbs.InitAttr{}) },
			"ToRTR":           func() error { return z.qp.ToRTR(verbs.RTRAttr{}) },
			"ToRTS":           func() error { return z.qp.ToRTS(verbs.RTSAttr{}) },
			"ToSQD":           func() error { return z.qp.ToSQD(true) },
			"ToErr":           z.qp.ToErr,
			"ToReset":         z.qp.ToReset,
			"Resume":          z.qp.Resume,
			"AttachMulticast": func() error { return z.ud.AttachMulticast(group) },
			"DetachMulticast": func() error { return z.ud.DetachMulticast(group) },
			"Destroy":         z.qp.Destroy,
			"Device":          no(func() { z.qp.Device() }),
			"Endpoint":        no(func() { z.qp.Endpoint() }),
			"Number":          no(func() { z.qp.Number() }),
			"PD":              no(func() { z.qp.PD() }),
			"Query":           no(func() { z.qp.Query() }),
			"State":           no(func() { z.qp.State() }),
			"Type":            no(func() { z.qp.Type() }),
		},
		z.srq: {
			"PostRecv": func() error { return z.srq.PostRecv(verbs.RecvWR{}) },
			"SetLimit": func() error { return z.srq.SetLimit(1) },
			"Resize":   func() error { return z.srq.Resize(1000) },
			"Destroy":  z.srq.Destroy,
			"Depth":    no(func() { z.srq.Depth() }),
			"Limit":    no(func() { z.srq.Limit() }),
		},
		z.mr: {
			"Reregister": func() error { return z.mr.Reregister(nil, verbs.LocalWrite) },
			"Deregister": z.mr.Deregister,
			"Addr":       no(func() { z.mr.Addr() }),
			"Bytes":      no(func() { z.mr.Bytes() }),
			"LKey":       no(func() { z.mr.LKey() }),
			"Len":        no(func() { z.mr.Len() }),
			"PD":         no(func() { z.mr.PD() }),
			"RKey":       no(func() { z.mr.RKey() }),
			"SGE":        no(func() { z.mr.SGE(0, 1) }),
		},
		z.mw: {
			"Dealloc": z.mw.Dealloc,
			"RKey":    no(func() { z.mw.RKey() }),
			"Type":    no(func() { z.mw.Type() }),
		},
		z.ah: {
			"Destroy": z.ah.Destroy,
			"Query":   no(func() { z.ah.Query() }),
		},
		z.ch: {
			"Next":    func() error { return second(z.ch.Next(ctx)) },
			"Destroy": z.ch.Destroy,
		},
	}
}

type discard struct{}

func (*discard) Write(b []byte) (int, error) { return len(b), nil }

// harmless are the methods that give an object up or have no error: they
// succeed on a device that is closed and on an object that is gone.
var harmless = map[string]bool{
	"Close": true, "Destroy": true, "Dealloc": true, "Deregister": true, "Arm": true,
	"Addr": true, "Counters": true, "Counts": true, "Explain": true, "GID": true, "GIDs": true, "Name": true, "Query": true, "QueryPort": true,
	"Device": true, "Depth": true, "Endpoint": true, "Number": true, "PD": true, "State": true, "Type": true, "Limit": true,
	"Bytes": true, "LKey": true, "Len": true, "RKey": true, "SGE": true,
}

// callAll calls every method of every object, all that there are, and checks
// that those that can fail do so with want. What gives objects up comes last.
func (z *zoo) callAll(t *testing.T, want error, leave ...any) {
	t.Helper()
	calls := z.calls()
	for _, x := range leave {
		delete(calls, x)
	}
	for _, last := range []bool{false, true} {
		for x, methods := range calls {
			typ := reflect.TypeOf(x)
			for i := range typ.NumMethod() {
				name := typ.Method(i).Name
				switch call := methods[name]; {
				case call == nil:
					t.Errorf("%v.%s is not in the table of this test", typ, name)
				case harmless[name] == last:
					z.call(t, typ.String()+"."+name, call, want, last)
				}
			}
		}
	}
}

func (z *zoo) call(t *testing.T, name string, call func() error, want error, harmless bool) {
	t.Helper()
	start := time.Now()
	err := call()
	if harmless && err != nil && !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("%s: %v", name, err)
	}
	if !harmless && !errors.Is(err, want) {
		t.Errorf("%s: expected %q, found %v", name, want, err)
	}
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("%s hung", name)
	}
}

func TestUseAfterCloseSaysSo(t *testing.T) {
	z := newZoo(t, leakA)
	if err := z.dev.Close(); err != nil {
		t.Fatal(err)
	}
	z.callAll(t, verbs.ErrClosed)
	if err := z.destroy(); err != nil {
		t.Fatal(err)
	}
	if c := z.dev.Counts(); c != (adapter.Counts{}) {
		t.Fatalf("objects left: %+v", c)
	}
}

func TestUseAfterDestroySaysSo(t *testing.T) {
	z := newZoo(t, leakA)
	defer z.dev.Close()
	for range 2 { // the second does nothing
		if err := z.destroy(); err != nil {
			t.Fatal(err)
		}
		if c := z.dev.Counts(); c != (adapter.Counts{}) {
			t.Fatalf("objects left: %+v", c)
		}
	}
	z.callAll(t, verbs.ErrDestroyed, z.dev)
	if c := z.dev.Counts(); c != (adapter.Counts{}) {
		t.Fatalf("objects made on objects that are gone: %+v", c)
	}
}

func TestDestroyWakesWhoWaits(t *testing.T) {
	z := newZoo(t, leakA)
	defer z.dev.Close()
	ended := make(chan error, 2)
	go func() { ended <- z.cq.Wait(t.Context()) }()
	go func() { ended <- second(z.ch.Next(t.Context())) }()
	time.Sleep(10 * time.Millisecond)
	if err := z.destroy(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, verbs.ErrDestroyed) {
				t.Errorf("expected %q, found %v", verbs.ErrDestroyed, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("still waiting")
		}
	}
}
