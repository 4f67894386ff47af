package target_test

import (
	"bytes"
	"errors"
	"testing"

	"softrdma/storage/block"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

// A shortReader breaks the contract of backends: it reads half of what it should and reports no error.
type shortReader struct{ block.Backend }

func (s shortReader) ReadAt(b []byte, off int64) (int, error) {
	return s.Backend.ReadAt(b[:len(b)/2], off)
}

// TestNoHostSeesDataOfAnother: buffers have what was read and written before, by any host.
func TestNoHostSeesDataOfAnother(t *testing.T) {
	const secret, size = 0x5a, 64 << 10
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t), newMemory(t), shortReader{newMemory(t)})
		c, n := s.disk(t, 1)
		spoil := func() { // all buffers that the target uses here
			t.Helper()
			for _, size := range []int{512, 4096, 8192, 16384, 32768, size} {
				if _, err := n.WriteAt(bytes.Repeat([]byte{secret}, size), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		spoil()
		other, zeros := s.disk(t, 2)
		data := make([]byte, size)
		read := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if bytes.Contains(data, bytes.Repeat([]byte{secret}, 8)) {
				t.Errorf("%s returns data of another namespace", what)
			}
		}
		_, err := zeros.ReadAt(data, 0)
		read("a read of blocks that were never written", err)
		if _, err := zeros.WriteAt(bytes.Repeat([]byte{1}, size), 0); err != nil {
			t.Fatal(err)
		}
		spoil()
		err = errors.Join(zeros.Trim(t.Context(), 0, size))
		_, e := zeros.ReadAt(data, 0)
		read("a read of trimmed blocks", errors.Join(err, e))
		short, err := other.Namespace(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		spoil()
		var failed *status.Error
		if _, err := short.ReadAt(data, 0); !errors.As(err, &failed) || failed.Status.Code() != status.ReadError {
			t.Errorf("a backend that reads half: expected %v, found %v", status.ReadError, err)
		}
		read("a backend that reads half", nil)
		if err := short.Compare(t.Context(), make([]byte, size), 0); !errors.As(err, &failed) || failed.Status.Code() != status.ReadError {
			t.Errorf("a compare with a backend that reads half: expected %v, found %v", status.ReadError, err)
		}
		// Pages that the controller fills itself.
		for name, cmd := range map[string]capsule.Command{
			"identify":           {Opcode: capsule.AdminIdentify, CDW10: uint32(identify.CNSController)},
			"identify namespace": {Opcode: capsule.AdminIdentify, CDW10: uint32(identify.CNSNamespace), NSID: 2},
			"the error log":      logpage.Command(logpage.Error, 0, 4096),
			"the ANA log":        logpage.Command(logpage.ANA, 0, 4096),
			"the changed list":   logpage.Command(logpage.ChangedNamespaces, 0, 4096),
		} {
			spoil()
			clear(data)
			_, err := other.Admin(t.Context(), cmd, data[:4096])
			read(name, err)
		}
		if err := errors.Join(c.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	})
}
