package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"softrdma/verbs"
)

func TestTransmissionUnknownNameListsKnownOnes(t *testing.T) {
	const controls, recoveries = "expected window, dcqcn, delay, path, none, timely, swift, bounded or hpcc, found", "expected selective-repeat or go-back-n, found"
	for want, cfg := range map[string]verbs.Config{
		controls + ` "cubic"`:   {Congestion: "cubic"},
		controls + ` "default"`: {Congestion: "default"},
		recoveries + ` "none"`:  {Recovery: "none"},
	} {
		if _, err := verbs.Open(addrA, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("device with %+v: %v", cfg, err)
		}
	}
	s := newSide(t, addrA, 64, verbs.RC)
	for want, cfg := range map[string]verbs.QPConfig{
		controls + ` "Window"`:   {Type: verbs.RC, Congestion: "Window"},
		recoveries + ` "goback"`: {Type: verbs.RC, Recovery: "goback"},
		"UC does not retransmit": {Type: verbs.UC, Recovery: verbs.GoBackN},
		"UC has no acknowledges: expected congestion control dcqcn or none": {Type: verbs.UC, Congestion: verbs.CongestionDelay},
		"UD has neither":           {Type: verbs.UD, Recovery: verbs.GoBackN},
		"UD has neither: expected": {Type: verbs.UD, Congestion: verbs.CongestionDelay},
	} {
		cfg.SendCQ = s.cq
		_, err := s.pd.CreateQP(cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("queue pair, expected %q, found %v", want, err)
		}
		if cfg.Type != verbs.RC && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v is not ErrUnsupported", cfg.Type, err)
		}
	}
}

func TestTransmissionNamesAreTaken(t *testing.T) {
	for _, c := range []verbs.CongestionControl{"", verbs.CongestionWindow, verbs.CongestionDCQCN, verbs.CongestionDelay, verbs.CongestionNone, "timely", "swift", "bounded", "hpcc"} {
		for _, r := range []verbs.Recovery{"", verbs.SelectiveRepeat, verbs.GoBackN} {
			dev, err := verbs.Open(addrA, verbs.Config{Congestion: c, Recovery: r})
			if err != nil {
				t.Fatal(err)
			}
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatal(err)
			}
			cq, err := dev.CreateCQ(verbs.CQConfig{Depth: 4})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, Congestion: c, Recovery: r}); err != nil {
				t.Errorf("%q and %q: %v", c, r, err)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
