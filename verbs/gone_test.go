package verbs_test

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"testing"
	"time"

	"softrdma/verbs"
)

// calls calls all public methods of a device's objects, and returns their errors, nil for
// methods without one.
func (z *zoo) calls() map[any]map[string]func() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // of all calls together
	time.AfterFunc(time.Minute, cancel)
	wcs := make([]verbs.WC, 1)
	no := func(f func()) func() error { return func() error { f(); return nil } }
	e := verbs.Endpoint{QPN: z.qp.Number(), GID: z.dev.GID(), LID: z.dev.QueryPort().LID}
	group := verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}.Addr()
	return map[any]map[string]func() error{
		z.dev: {
			"AllocPD":           func() error { return second(z.dev.AllocPD()) },
			"CreateCQ":          func() error { return second(z.dev.CreateCQ(verbs.CQConfig{})) },
			"CreateCompChannel": func() error { return second(z.dev.CreateCompChannel()) },
			"Capture":           func() error { return second(z.dev.Capture(&discard{})) },
			"OpenXRCD": func() error {
				if !z.dev.Query().XRC {
					return second(z.dev.AllocPD())
				}
				return second(z.dev.OpenXRCD())
			},
			"NextEvent": func() error { return second(z.dev.NextEvent(ctx)) },
			"Close":     z.dev.Close,
			"Addr":      no(func() { z.dev.Addr() }),
			"Counters":  no(func() { counter(z.dev, "") }),
			"Counts":    no(func() { z.dev.Counts() }),
			"Explain":   no(func() { z.dev.Explain() }),
			"GID":       no(func() { z.dev.GID() }),
			"GIDs":      no(func() { z.dev.GIDs() }),
			"Name":      no(func() { z.dev.Name() }),
			"Protocol":  no(func() { z.dev.Protocol() }),
			"Query":     no(func() { z.dev.Query() }),
			"QueryPort": no(func() { z.dev.QueryPort() }),
			"Spin":      no(func() { z.dev.Spin() }),
			"Traffic":   no(func() { z.dev.Traffic() }),
			"Capturing": no(func() { z.dev.Capturing() }),
			"SameHost":  no(func() { z.dev.SameHost() }),

			"Faults": no(func() { z.dev.Faults() }),

			"KeepRecords":        func() error { return z.dev.KeepRecords(os.TempDir()) },
			"FlushRecords":       z.dev.FlushRecords,
			"WriteRecord":        func() error { return z.dev.WriteRecord(io.Discard) },
			"WriteRecordCapture": func() error { return z.dev.WriteRecordCapture(io.Discard) },
		},
		z.pd: {
			"AllocMW":        func() error { return second(z.pd.AllocMW(verbs.MWType2)) },
			"CreateAH":       func() error { return second(z.pd.CreateAH(vector(z.dev))) },
			"CreateQP":       func() error { return second(z.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: z.cq})) },
			"CreateSRQ":      func() error { return second(z.pd.CreateSRQ(verbs.SRQConfig{})) },
			"RegisterMemory": func() error { return second(z.pd.RegisterMemory(make([]byte, 8), verbs.LocalWrite)) },
			"Dealloc":        z.pd.Dealloc,
			"Device":         no(func() { z.pd.Device() }),
		},
		z.cq: {
			"Poll":          func() error { return second(z.cq.Poll(wcs)) },
			"Wait":          func() error { return z.cq.Wait(ctx) },
			"WaitOne":       func() error { return second(z.cq.WaitOne(ctx)) },
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
			"Path":            no(func() { z.qp.Path() }),
			"WhyNetwork":      no(func() { _ = z.qp.WhyNetwork() }),
			"View":            func() error { return second(z.qp.View(context.Background(), 1, 1, 1)) },
			"PD":              no(func() { z.qp.PD() }),
			"Query":           no(func() { z.qp.Query() }),
			"State":           no(func() { z.qp.State() }),
			"TrimSend":        no(func() { z.qp.TrimSend(1) }),
			"Type":            no(func() { z.qp.Type() }),
		},
		z.srq: {
			"PostRecv": func() error { return z.srq.PostRecv(verbs.RecvWR{}) },
			"SetLimit": func() error { return z.srq.SetLimit(1) },
			"Resize":   func() error { return z.srq.Resize(1000) },
			"Destroy":  z.srq.Destroy,
			"Depth":    no(func() { z.srq.Depth() }),
			"Limit":    no(func() { z.srq.Limit() }),
			"Number":   no(func() { z.srq.Number() }),
		},
		z.mr: {
			"Reregister": func() error { return z.mr.Reregister(nil, verbs.LocalWrite) },
			"Deregister": z.mr.Deregister,
			"Addr":       no(func() { z.mr.Addr() }),
			"Bytes":      no(func() { z.mr.Bytes() }),
			"LKey":       no(func() { z.mr.LKey() }),
			"Len":        no(func() { z.mr.Len() }),
			"PD":         no(func() { z.mr.PD() }),
			"Remote":     no(func() { z.mr.Remote() }),
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

// harmless lists the methods that release an object or have no error: they succeed on a closed
// device and on a destroyed object.
var harmless = map[string]bool{
	"Close": true, "Destroy": true, "Dealloc": true, "Deregister": true, "Arm": true,
	"Addr": true, "Counters": true, "Counts": true, "Daemon": true, "Explain": true, "GID": true, "GIDs": true, "Name": true, "Protocol": true, "Query": true, "QueryPort": true, "SameHost": true, "Path": true, "WhyNetwork": true, "Spin": true, "Traffic": true, "Capturing": true,
	"Device": true, "Depth": true, "Endpoint": true, "Number": true, "PD": true, "State": true, "TrimSend": true, "Type": true, "Limit": true,
	"Faults": true, "KeepRecords": true, "FlushRecords": true, "WriteRecord": true, "WriteRecordCapture": true, // what was before the end
	"Bytes": true, "LKey": true, "Len": true, "Remote": true, "RKey": true, "SGE": true,
}

// callAll calls every method of every object, and checks that those that can fail return want.
// Methods that release objects come last.
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
	if d := time.Since(start); d > 20*time.Second {
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
	if c := z.dev.Counts(); c != (verbs.Counts{}) {
		t.Fatalf("objects left: %+v", c)
	}
}

func TestUseAfterDestroySaysSo(t *testing.T) {
	z := newZoo(t, leakA)
	defer z.dev.Close()
	for range 2 { // the second call does nothing
		if err := z.destroy(); err != nil {
			t.Fatal(err)
		}
		if c := z.dev.Counts(); c != (verbs.Counts{}) {
			t.Fatalf("objects left: %+v", c)
		}
	}
	z.callAll(t, verbs.ErrDestroyed, z.dev)
	if c := z.dev.Counts(); c != (verbs.Counts{}) {
		t.Fatalf("objects made on objects that are gone: %+v", c)
	}
}

func TestDestroyWakesWaiters(t *testing.T) {
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
