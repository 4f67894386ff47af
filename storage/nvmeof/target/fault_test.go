package target_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/status"
)

// inject sets one rule, for commands to the subsystem.
func (s *simulation) inject(t *testing.T, r faults.Rule) {
	t.Helper()
	r.Select.Subsystem = nqn
	if err := s.server.Device.Faults().Set(faults.Rules{Rules: []faults.Rule{r}}); err != nil {
		t.Fatal(err)
	}
}

// hits checks how often the rule has hit.
func (s *simulation) hits(t *testing.T, want uint64) {
	t.Helper()
	if n := s.server.Device.Faults().Counts(); len(n) != 1 || n[0] != want {
		t.Errorf("expected %d hits, found %v: %v", want, n, s.server.Device.Faults().Hits())
	}
}

func TestRulesKnowAllCommands(t *testing.T) {
	if names := faults.Values("command"); !slices.Equal(names, capsule.Names()) {
		t.Errorf("rules know %q, the target %q", names, capsule.Names())
	}
}

func TestBadBlocksFailCommands(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t), newMemory(t))
		c, n := s.disk(t, 1)
		other, err := c.Namespace(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		want := func(name string, err error, want status.Status) {
			t.Helper()
			var failed *status.Error
			if want == status.Success && err != nil || want != status.Success && (!errors.As(err, &failed) || failed.Status.Code() != want) {
				t.Errorf("%s: expected %v, found %v", name, want, err)
			}
		}
		b := make([]byte, 1024)
		access := func(n *host.Namespace, block int64) (write, read error) {
			_, write = n.WriteAt(b, block*512)
			_, read = n.ReadAt(b, block*512)
			return write, read
		}
		s.inject(t, faults.Rule{Action: faults.FailCommand, Select: faults.Selector{Namespace: 1, LBA: "100-101"}})
		for block, fails := range map[int64]bool{98: false, 99: true, 100: true, 101: true, 102: false} {
			write, read := access(n, block)
			if !fails {
				want("a write before or behind", write, status.Success)
				want("a read before or behind", read, status.Success)
				continue
			}
			want("a write", write, status.WriteFault)
			want("a read", read, status.ReadError)
		}
		write, read := access(other, 100)
		want("another namespace", errors.Join(write, read), status.Success)
		s.hits(t, 6)
		s.inject(t, faults.Rule{
			Action: faults.FailCommand, NVMeStatus: uint16(status.CapacityExceeded), Select: faults.Selector{Command: []string{"write"}, Count: 1},
		})
		write, read = access(n, 0)
		want("one write", write, status.CapacityExceeded)
		want("a read", read, status.Success)
		write, _ = access(n, 0)
		want("the next write", write, status.Success)
		s.hits(t, 1)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSlowNamespace(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t), newMemory(t))
		c, n := s.disk(t, 1)
		other, err := c.Namespace(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		s.inject(t, faults.Rule{Action: faults.DelayCommand, Time: faults.Duration(3 * time.Second), Select: faults.Selector{Namespace: 1}})
		since := func(n *host.Namespace) time.Duration {
			start := time.Now()
			if _, err := n.WriteAt(make([]byte, 16<<10), 0); err != nil {
				t.Error(err)
			}
			return time.Since(start)
		}
		if d := since(n); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("expected 3 s, found %v", d)
		}
		if d := since(other); d > time.Second {
			t.Errorf("the other namespace took %v", d)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestLostCompletion(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		disk := newMemory(t)
		s.subsystem(t, disk)
		c, n := s.disk(t, 1)
		s.inject(t, faults.Rule{Action: faults.LoseCompletion, Select: faults.Selector{Command: []string{"write"}, Count: 1}})
		data, got := bytes.Repeat([]byte{7}, 16<<10), make([]byte, 16<<10)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := n.WriteContext(ctx, data, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("expected no answer, found %v", err)
		}
		if _, err := disk.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the data was not written: %v", err)
		}
		s.hits(t, 1)
		if _, err := n.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the next command: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestControllerResetEndsConnections(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t))
		c, n := s.disk(t, 1)
		s.inject(t, faults.Rule{Action: faults.ResetController, Select: faults.Selector{Command: []string{"read"}, Count: 1}})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, _ = n.ReadContext(ctx, make([]byte, 512), 0) // fails, or is repeated on a new connection
		for range 2 {
			if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "fault: rule 1: reset-controller match 1") {
				t.Errorf("a queue has ended: %v", err)
			}
		}
		_ = c.Close() // its peer may be gone
		again, n := s.disk(t, 1)
		if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
			t.Errorf("after connecting again: %v", err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestLostPathRejectsHosts(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t))
		c, n := s.disk(t, 1)
		s.inject(t, faults.Rule{Action: faults.LosePath, Time: faults.Duration(10 * time.Second), Select: faults.Selector{Command: []string{"flush"}, Count: 1}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = n.Flush(ctx)
		for range 2 {
			if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "fault: rule 1: lose-path match 1") {
				t.Errorf("a queue has ended: %v", err)
			}
		}
		_ = c.Close() // its peer may be gone
		cfg := host.Config{Subsystem: nqn, Dialer: rdmacm.Dialer{Device: s.host.Device}}
		var rejected *host.RejectError
		if _, err := host.Dial(t.Context(), s.addr, cfg); !errors.As(err, &rejected) || rejected.Status != fabrics.RejectResources {
			t.Errorf("while the path is lost: %v", err)
		}
		time.Sleep(10 * time.Second)
		c = s.dial(t, cfg)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
