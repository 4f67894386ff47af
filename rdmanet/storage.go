package rdmanet

import (
	"errors"
	"slices"

	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// storage is a connection's registered memory. One mapping has several regions, so
// that the peer can access only the memory that it needs. What is sent has a mapping of
// its own, because a peer on the same host maps an allocation to read from it, and it
// may see nothing else.
type storage struct {
	mem *verbs.Memory

	recv, table, words       []byte
	recvMR, tableMR, wordsMR *verbs.MR

	sendArea area
	grown    []*area // what the connection has in addition; nil entries are free
}

// An area is registered memory.
type area struct {
	mem   *verbs.Memory
	mr    *verbs.MR
	bytes []byte
}

func newArea(pd *verbs.PD, n int, access verbs.Access) (a area, err error) {
	if a.mem, err = verbs.AllocMemory(n, verbs.AllocConfig{Device: pd.Device()}); err != nil {
		return a, err
	}
	a.bytes = a.mem.Bytes()
	if a.mr, err = pd.RegisterMemory(a.bytes, access); err != nil {
		err = errors.Join(err, a.mem.Free())
	}
	return a, err
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
	if s.sendArea, err = newArea(pd, send, 0); err != nil {
		return nil, err
	}
	if s.mem, err = verbs.AllocMemory(pages(recv)+pages(table)+pages(words), verbs.AllocConfig{Device: pd.Device()}); err != nil {
		return nil, errors.Join(err, s.deregister(), s.free())
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

// half is the length of half of the receive buffer.
func (s *storage) half() int { return len(s.recv) / 2 }

// piece returns the memory of a piece.
func (s *storage) piece(p rsocket.Piece) []byte {
	b := s.recv
	if p.Area > 0 {
		b = s.grown[p.Area-1].bytes
	}
	return b[p.Off : p.Off+p.Len]
}

// target describes a piece for the peer.
func (s *storage) target(p rsocket.Piece) rsocket.SGE {
	mr := s.recvMR
	if p.Area > 0 {
		mr = s.grown[p.Area-1].mr
	}
	return rsocket.SGE{Addr: mr.Addr() + uint64(p.Off), Key: mr.RKey(), Length: uint32(p.Len)}
}

// add keeps an area, and returns its number in pieces.
func (s *storage) add(a *area) int {
	i := slices.Index(s.grown, nil)
	if i < 0 {
		i, s.grown = len(s.grown), append(s.grown, nil)
	}
	s.grown[i] = a
	return i + 1
}

// remove frees an area that is not in use.
func (s *storage) remove(a *area) error {
	if i := slices.Index(s.grown, a); i >= 0 {
		s.grown[i] = nil
	}
	return errors.Join(a.mr.Deregister(), a.mem.Free())
}

// free unmaps the memory, whose regions were deregistered.
func (s *storage) free() error {
	var errs []error
	for _, m := range s.all() {
		errs = append(errs, m.mem.Free())
	}
	if s.mem != nil {
		errs = append(errs, s.mem.Free())
	}
	return errors.Join(errs...)
}

// all returns the areas.
func (s *storage) all() (list []*area) {
	for _, a := range append([]*area{&s.sendArea}, s.grown...) {
		if a != nil && a.mem != nil {
			list = append(list, a)
		}
	}
	return list
}

// deregister deregisters the regions. The memory remains mapped.
func (s *storage) deregister() error {
	var errs []error
	for _, a := range s.all() {
		errs = append(errs, a.mr.Deregister())
	}
	for _, mr := range []*verbs.MR{s.recvMR, s.tableMR, s.wordsMR} {
		if mr != nil {
			errs = append(errs, mr.Deregister())
		}
	}
	return errors.Join(errs...)
}
