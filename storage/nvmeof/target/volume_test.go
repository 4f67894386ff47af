package target_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/status"
)

// A stuck backend blocks reads until it is released.
type stuck struct {
	*block.Memory
	release chan struct{}
	mu      sync.Mutex
	reads   int // that have begun
}

func (s *stuck) Blocks() bool { return true }

func (s *stuck) ReadAt(b []byte, off int64) (int, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	<-s.release
	return s.Memory.ReadAt(b, off)
}

func (s *stuck) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func newMemory(t testing.TB) *block.Memory {
	t.Helper()
	m, err := block.NewMemory(size, 512)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestStuckNamespaceLeavesBuffersToOthers(t *testing.T) {
	cfg := target.Config{Buffers: 256 << 10, Limits: controller.Limits{MaxTransfer: 128 << 10}}
	simulate(t, cfg, func(t *testing.T, s *simulation) {
		bad := &stuck{Memory: newMemory(t), release: make(chan struct{})}
		s.subsystem(t, bad, newMemory(t))
		c, first := s.disk(t, 1)
		second, err := c.Namespace(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		var reads sync.WaitGroup
		for range 5 {
			reads.Go(func() {
				if _, err := first.ReadAt(make([]byte, 128<<10), 0); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if n := bad.begun(); n != 2 {
			t.Errorf("expected 2 reads with the buffers of the namespace, found %d", n)
		}
		if _, err := second.ReadAt(make([]byte, 128<<10), 0); err != nil {
			t.Errorf("the other namespace: %v", err)
		}
		close(bad.release)
		reads.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRemovedNamespaceIsNotAccessed: its backend may be closed when RemoveNamespace returns.
func TestRemovedNamespaceIsNotAccessed(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		disk := &stuck{Memory: newMemory(t), release: make(chan struct{})}
		sub := s.subsystem(t, disk)
		c, n := s.disk(t, 1)
		var work sync.WaitGroup
		work.Go(func() {
			if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
				t.Errorf("a read that had begun: %v", err)
			}
		})
		time.Sleep(time.Second)
		removed := false
		work.Go(func() {
			if err := s.target.RemoveNamespace(sub, 1); err != nil {
				t.Error(err)
			}
			removed = true
		})
		synctest.Wait()
		if removed {
			t.Error("the namespace was removed while a read used its backend")
		}
		close(disk.release)
		work.Wait()
		var failed *status.Error
		if _, err := n.ReadAt(make([]byte, 512), 0); !errors.As(err, &failed) || failed.Status.Code() != status.InvalidNamespace {
			t.Errorf("after the removal: %v", err)
		}
		if n := disk.begun(); n != 1 {
			t.Errorf("expected 1 read, found %d", n)
		}
		if err := s.target.RemoveNamespace(sub, 1); err == nil {
			t.Error("a namespace was removed twice")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClosedTargetDoesNotListen(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		if err := s.target.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.target.Listen("127.0.0.2:4420", rdmacm.ListenConfig{Device: s.host.Device}); err == nil {
			t.Error("a closed target listens")
		}
		if l, err := rdmacm.Listen("127.0.0.2:4420", rdmacm.ListenConfig{Device: s.host.Device}); err != nil {
			t.Errorf("the port is in use: %v", err)
		} else if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
