package verbs_test

import (
	"bytes"
	"context"
	"encoding"
	"errors"
	"sync"
	"testing"

	"softrdma/verbs"
)

var (
	_ encoding.BinaryAppender    = verbs.RemoteMemory{}
	_ encoding.BinaryUnmarshaler = (*verbs.RemoteMemory)(nil)
)

func TestWaitOneGivesEachGoroutineACompletion(t *testing.T) {
	a, b := openExample("127.7.9.3"), openExample("127.7.9.4")
	defer a.dev.Close()
	defer b.dev.Close()
	connectExample(a, b)
	const goroutines, each = 4, 20
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				if err := a.qp.PostSend(verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)},
					RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}); err != nil {
					t.Error(err)
					return
				}
				if wc, err := a.cq.WaitOne(t.Context()); err != nil || wc.Op != verbs.WCWrite || wc.QPN != a.qp.Number() {
					t.Errorf("%+v, %v", wc, err)
					return
				}
			}
		})
	}
	all.Wait()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if wc, err := a.cq.WaitOne(ended); !errors.Is(err, context.Canceled) || wc != (verbs.WC{}) {
		t.Errorf("%+v, %v: more completions than requests", wc, err)
	}
}

func TestWaitOneReturnsTheErrorOfTheCompletion(t *testing.T) {
	a, b := openExample("127.7.9.3"), openExample("127.7.9.4")
	defer a.dev.Close()
	defer b.dev.Close()
	connectExample(a, b)
	check(a.qp.PostSend(verbs.SendWR{WRID: 7, Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 0x100}))
	wc, err := a.cq.WaitOne(t.Context())
	var failed *verbs.CompletionError
	if !errors.As(err, &failed) || failed.Status != verbs.RemAccessErr || wc.WRID != 7 {
		t.Errorf("%+v, %v", wc, err)
	}
}

func TestRemoteMemoryIsThatOfRping(t *testing.T) {
	m := verbs.RemoteMemory{Addr: 0x1122334455667788, RKey: 0x99aabbcc, Length: 0x10}
	b, err := m.MarshalBinary()
	want := []byte("\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\x00\x00\x00\x10")
	if err != nil || !bytes.Equal(b, want) || len(b) != verbs.RemoteMemoryLen {
		t.Fatalf("%x, %v, expected %x", b, err, want)
	}
	padded := append(b, make([]byte, 40)...)
	if got, err := verbs.ParseRemoteMemory(padded); got != m || err != nil {
		t.Errorf("%+v, %v, expected %+v", got, err, m)
	}
	for n := range verbs.RemoteMemoryLen {
		if err := new(verbs.RemoteMemory).UnmarshalBinary(b[:n]); err == nil {
			t.Errorf("%d bytes were accepted", n)
		}
	}
}

func TestRemoteOfARegionHasItsBounds(t *testing.T) {
	a := openExample("127.7.9.3")
	defer a.dev.Close()
	if r := a.mr.Remote(); r.Addr != a.mr.Addr() || r.RKey != a.mr.RKey() || r.Length != 64 {
		t.Errorf("%+v", r)
	}
}
