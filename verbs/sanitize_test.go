package verbs_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"softrdma/verbs"
)

// A selfSender is a device with a queue pair that is connected to itself.
type selfSender struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR

	reported func() bool // something has been found
}

func newSelfSender(t *testing.T, cfg verbs.Config) *selfSender {
	t.Helper()
	needUDP(t)
	dev, err := verbs.NewStack().Open("127.7.1.93", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	s := &selfSender{dev: dev}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s.pd, err = dev.AllocPD()
	check(err)
	s.cq, err = dev.CreateCQ(verbs.CQConfig{})
	check(err)
	s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq})
	check(err)
	s.mr, err = s.pd.RegisterMemory(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
	check(err)
	e := s.qp.Endpoint()
	check(s.qp.Connect(e, e, verbs.ConnectConfig{}))
	return s
}

// write writes from a region to the own one, and returns the status.
func (s *selfSender) write(t *testing.T, w verbs.SendWR) verbs.Status {
	t.Helper()
	w.Flags, w.RKey, w.RemoteAddr = verbs.Signaled, s.mr.RKey(), w.RemoteAddr+s.mr.Addr()
	if err := s.qp.PostSend(w); err != nil {
		t.Fatal(err)
	}
	return s.poll(t)
}

// poll waits for a completion and returns its status.
func (s *selfSender) poll(t *testing.T) verbs.Status {
	t.Helper()
	for {
		wcs := make([]verbs.WC, 1)
		n, err := s.cq.Poll(wcs)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return wcs[0].Status
		}
	}
}

func (s *selfSender) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.qp.Destroy(), s.mr.Deregister(), s.cq.Destroy(), s.pd.Dealloc()); err != nil {
		t.Error(err)
	}
}

func TestSanitizeFindsMistakesOfGoPrograms(t *testing.T) {
	for want, mistake := range map[string]func(s *selfSender){
		"": func(s *selfSender) {
			s.write(t, verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{s.mr.SGE(0, 64)}, RemoteAddr: 2048})
			s.end(t)
		},
		"USE_AFTER_DEREG": func(s *selfSender) {
			mr, err := s.pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			sge := mr.SGE(0, 64)
			if err := mr.Deregister(); err != nil {
				t.Fatal(err)
			}
			if status := s.write(t, verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{sge}}); status != verbs.LocProtErr {
				t.Errorf("status %v", status)
			}
			s.end(t)
		},
		"RECEIVE_CHANGED": func(s *selfSender) {
			if err := s.qp.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{s.mr.SGE(1024, 64)}}); err != nil {
				t.Fatal(err)
			}
			s.mr.Bytes()[1024]++
			if err := s.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{s.mr.SGE(0, 64)}}); err != nil {
				t.Fatal(err)
			}
			s.poll(t)
			s.end(t)
		},
		"READ_CHANGED": func(s *selfSender) {
			peer, err := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq})
			if err != nil {
				t.Fatal(err)
			}
			q, err := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Connect(q.Endpoint(), peer.Endpoint(), verbs.ConnectConfig{}); err != nil {
				t.Fatal(err)
			}
			w := verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(1024, 64)}, RKey: s.mr.RKey(), RemoteAddr: s.mr.Addr()}
			if err := q.PostSend(w); err != nil {
				t.Fatal(err)
			}
			s.mr.Bytes()[1024]++ // the peer is not connected yet, so it cannot have answered
			if err := peer.Connect(peer.Endpoint(), q.Endpoint(), verbs.ConnectConfig{}); err != nil {
				t.Fatal(err)
			}
			if status := s.poll(t); status != verbs.Success {
				t.Errorf("status %v", status)
			}
			if err := errors.Join(peer.Destroy(), q.Destroy()); err != nil {
				t.Error(err)
			}
			s.end(t)
		},
		"OBJECT_LEAKED": func(s *selfSender) {
			if err := errors.Join(s.qp.Destroy(), s.mr.Deregister(), s.cq.Destroy()); err != nil {
				t.Error(err)
			}
		},
		"EVENT_UNARMED": func(s *selfSender) {
			h, err := s.dev.CreateCompChannel()
			if err != nil {
				t.Fatal(err)
			}
			own := s.cq
			s.cq, err = s.dev.CreateCQ(verbs.CQConfig{Channel: h})
			if err != nil {
				t.Fatal(err)
			}
			q, err := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq})
			if err != nil {
				t.Fatal(err)
			}
			e := q.Endpoint()
			if err := q.Connect(e, e, verbs.ConnectConfig{}); err != nil {
				t.Fatal(err)
			}
			if err := q.PostSend(verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, 64)}, RKey: s.mr.RKey(), RemoteAddr: s.mr.Addr() + 2048}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for !s.reported() { // the completion may not have come yet
				if _, err := h.Next(ctx); err == nil {
					t.Error("found an event")
				}
				runtime.Gosched()
			}
			for n := 0; n == 0; {
				if n, err = s.cq.Poll(make([]verbs.WC, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(q.Destroy(), s.cq.Destroy(), h.Destroy(), s.qp.Destroy(), own.Destroy(), s.mr.Deregister(), s.pd.Dealloc()); err != nil {
				t.Error(err)
			}
		},
		"OBJECT_LEAKED OBJECT_LEAKED OBJECT_LEAKED OBJECT_LEAKED": func(s *selfSender) { // other objects than queues
			if _, err := s.dev.CreateCompChannel(); err != nil {
				t.Error(err)
			}
			w, err := s.pd.AllocMW(verbs.MWType2)
			if err != nil {
				t.Fatal(err)
			}
			h, err := s.pd.CreateAH(verbs.AddressVector{DGID: s.qp.Endpoint().GID})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Dealloc(); err != nil {
				t.Error(err)
			}
			if err := h.Destroy(); err != nil {
				t.Error(err)
			}
			if _, err := s.pd.AllocMW(verbs.MWType1); err != nil {
				t.Error(err)
			}
			if _, err := s.pd.CreateAH(verbs.AddressVector{DGID: s.qp.Endpoint().GID}); err != nil {
				t.Error(err)
			}
			if err := errors.Join(s.qp.Destroy(), s.mr.Deregister(), s.cq.Destroy()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			var mu sync.Mutex
			var found []string
			s := newSelfSender(t, verbs.Config{Sanitize: "default", SanitizeReport: func(rule, text string) {
				mu.Lock()
				defer mu.Unlock()
				if found = append(found, rule); !strings.Contains(text, "sanitize_test.go:") {
					t.Errorf("no position in the program:\n%s", text)
				}
			}})
			s.reported = func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(found) > 0
			}
			mistake(s)
			if err := s.dev.Close(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(found, strings.Fields(want)) {
				t.Errorf("found %v", found)
			}
		})
	}
}

func TestSanitizeUnknownRuleIsRefused(t *testing.T) {
	_, err := verbs.NewStack().Open("127.7.1.93", verbs.Config{Sanitize: "NO_RULE"})
	if err == nil || !strings.Contains(err.Error(), "USE_AFTER_DEREG") {
		t.Errorf("found %v", err)
	}
}
