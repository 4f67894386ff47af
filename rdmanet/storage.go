package rdmanet

import (
	"errors"

	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// storage is a connection's registered memory. One mapping has several regions, so
// that the peer can access only the memory that it needs. What is sent has a mapping of
// its own, because a peer on the same host maps an allocation to read from it, and it
// may see nothing else.
type storage struct {
	mem, sendMem *verbs.Memory

	recv, send, table, words         []byte
	recvMR, sendMR, tableMR, wordsMR *verbs.MR
}

const page = 4096

func pages(n int) int { return (n + page - 1) / page * page }

// tableLen returns the length of the target table and the table of mapped memory
// after it.
func tableLen(iomaps int) int {
	return rsocket.TargetEntries*rsocket.SGELen + iomaps*rsocket.IomapLen
}

func newStorage(pd *verbs.PD, recv, send, iomaps, words int) (*storage, error) {
	table := tableLen(iomaps)
	s := &storage{}
	var err error
	if s.sendMem, err = verbs.AllocMemory(send, verbs.AllocConfig{Device: pd.Device()}); err != nil {
		return nil, err
	}
	if s.mem, err = verbs.AllocMemory(pages(recv)+pages(table)+pages(words), verbs.AllocConfig{Device: pd.Device()}); err != nil {
		return nil, errors.Join(err, s.free())
	}
	s.send = s.sendMem.Bytes()
	if s.sendMR, err = pd.RegisterMemory(s.send, 0); err != nil {
		return nil, errors.Join(err, s.free())
	}
	b := s.mem.Bytes()
	for _, part := range []struct {
		n      int
		access verbs.Access
		buf    *[]byte
		mr     **verbs.MR
	}{
		{recv, verbs.LocalWrite | verbs.RemoteWrite, &s.recv, &s.recvMR},
		{table, verbs.LocalWrite | verbs.RemoteWrite, &s.table, &s.tableMR},
		{words, verbs.LocalWrite, &s.words, &s.wordsMR},
	} {
		if part.n == 0 {
			continue
		}
		*part.buf, b = b[:part.n:part.n], b[pages(part.n):]
		if *part.mr, err = pd.RegisterMemory(*part.buf, part.access); err != nil {
			return nil, errors.Join(err, s.deregister(), s.free())
		}
	}
	return s, nil
}

// free unmaps the memory, whose regions were deregistered.
func (s *storage) free() error {
	var errs []error
	for _, m := range []*verbs.Memory{s.mem, s.sendMem} {
		if m != nil {
			errs = append(errs, m.Free())
		}
	}
	return errors.Join(errs...)
}

// deregister deregisters the regions. The memory remains mapped.
func (s *storage) deregister() error {
	var errs []error
	for _, mr := range []*verbs.MR{s.recvMR, s.sendMR, s.tableMR, s.wordsMR} {
		if mr != nil {
			errs = append(errs, mr.Deregister())
		}
	}
	return errors.Join(errs...)
}
