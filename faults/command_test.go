package faults

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

func TestRulesSelectCommands(t *testing.T) {
	disk := CommandFacts{
		Peer: netip.MustParseAddr("192.0.2.1"), QPN: 7, Command: "read", Subsystem: "nqn.a", Namespace: 1, LBA: 100, Blocks: 8, Size: 4096,
	}
	for _, x := range []struct {
		s    Selector
		want bool
	}{
		{Selector{}, true}, {Selector{LBA: "107"}, true}, {Selector{LBA: "108"}, false}, {Selector{LBA: "0-99"}, false}, {Selector{LBA: "0-100"}, true},
		{Selector{LBA: "0x6b-18446744073709551615"}, true}, {Selector{Namespace: 2}, false}, {Selector{Subsystem: "nqn.b"}, false},
		{Selector{Command: []string{"write", "read"}}, true}, {Selector{Command: []string{"write"}}, false}, {Selector{Peer: "192.0.2.2"}, false},
		{Selector{QP: 8}, false}, {Selector{MinSize: 4097}, false}, {Selector{MaxSize: 4095}, false}, {Selector{Peer: "192.0.2.1", QP: 7, MinSize: 4096}, true},
	} {
		struck := 0
		x1, err := New(Rules{Rules: []Rule{{Action: DelayCommand, Time: Duration(time.Second), Select: x.s}}}, "rdma0")
		if err != nil {
			t.Fatal(err)
		}
		x1.Struck = func(qpn uint32, e *Effect) {
			if struck++; qpn != 7 || e.Where() != "rule 1: delay-command match 1" {
				t.Errorf("%+v: struck %d, %s", x.s, qpn, e.Where())
			}
		}
		e := x1.Command(disk)
		if hit := e.Action == DelayCommand && e.Time == time.Second; hit != x.want || (struck == 1) != x.want || (x1.Counts()[0] == 1) != x.want {
			t.Errorf("%+v: hit %v, want %v, struck %d, counted %v", x.s, hit, x.want, struck, x1.Counts())
		}
	}
	flush := disk
	flush.Command, flush.Blocks = "flush", 0
	x, err := New(Rules{Rules: []Rule{{Action: FailCommand, NVMeStatus: 0x81, Select: Selector{LBA: "100"}}}}, "rdma0")
	if err != nil {
		t.Fatal(err)
	}
	if e := x.Command(flush); e.Action != "" {
		t.Errorf("a command without blocks was hit: %+v", e)
	}
	if e := x.Command(disk); e.NVMeStatus != 0x81 {
		t.Errorf("got %+v", e)
	}
	if hits := x.Hits(); len(hits) != 1 || hits[0].What != "read to namespace 1 of nqn.a from 192.0.2.1, blocks 100-107" {
		t.Errorf("hits %+v", hits)
	}
}

func TestWrongRulesForCommandsAreNamed(t *testing.T) {
	for field, r := range map[string]Rule{
		"lba":         {Action: FailCommand, Select: Selector{LBA: "9-8"}},
		"command":     {Action: FailCommand, Select: Selector{Command: []string{"format"}}},
		"nvme_status": {Action: FailCommand, NVMeStatus: 0x800},
		"action":      {Action: LosePath}, // without a time
		"namespace":   {Action: Drop, Select: Selector{Namespace: 1}},
		"subsystem":   {Action: Fail, Errno: "EIO", Select: Selector{Subsystem: "nqn.a"}},
	} {
		var e *Error
		if err := (&Rules{Rules: []Rule{r}}).Check(); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
