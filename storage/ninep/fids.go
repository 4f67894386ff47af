package ninep

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
)

// Requests that make, open or end a file of a client. That of a reply is one more.
const (
	typeOpen        = 12
	typeCreate      = 14
	typeAttach      = 104
	typeWalk        = 110
	typeClunk       = 120
	typeRemove      = 122
	typeWalkGetAttr = 126 // of p9's own client, as the next
	typeUserCreate  = 128

	tooManyFiles = 24 // EMFILE of Linux
)

// fids bound the files that a client holds, which p9 does not. They follow the requests and replies of the
// client. A file weighs as many directories as were walked to it, because p9 keeps them as long.
type fids struct {
	files, opens int // limits

	mu      sync.Mutex
	held    map[uint32]fid
	pending map[uint16]request // by tag, that are not answered
	weight  int                // of the files that are held and that are being made
	open    int
}

type fid struct {
	weight int
	open   bool
}

// A request is one that is not answered.
type request struct {
	kind   byte
	fid    uint32 // that is made, opened or ended
	weight int    // that was added for it
	open   int
}

func newFids(cfg Config) fids {
	return fids{files: cfg.Files, opens: cfg.Open, held: make(map[uint32]fid), pending: make(map[uint16]request)}
}

// begin notes a complete request. It reports false if the client holds too much for it. An error says that
// the request depends on one that is not answered, so that its meaning is not known.
func (f *fids) begin(b []byte) (ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tag := tagOf(b)
	if _, used := f.pending[tag]; used {
		return false, fmt.Errorf("%w: expected a tag that is not in use, found %d", ErrMessage, tag)
	}
	r, rest := request{kind: b[4]}, b[headerLen:]
	if r.kind != typeFlush {
		r.fid = binary.LittleEndian.Uint32(rest)
	}
	switch r.kind {
	case typeFlush:
		// p9 lets a flush message wait for itself, or for another that waits for it.
		if old := binary.LittleEndian.Uint16(rest); old == tag || f.pending[old].kind == typeFlush {
			return false, fmt.Errorf("%w: expected a flush of a request, found one of the flush with tag %d", ErrMessage, old)
		}
	case typeAttach:
		r.weight = 1 + bytes.Count(b, []byte("/"))
	case typeWalk, typeWalkGetAttr:
		r.weight = max(f.held[r.fid].weight, 1) + int(binary.LittleEndian.Uint16(rest[8:]))
		r.fid = binary.LittleEndian.Uint32(rest[4:])
	case typeOpen:
		r.open = 1
	case typeCreate, typeUserCreate:
		r.weight, r.open = 1, 1
	}
	if r.makes() || r.ends() {
		for _, other := range f.pending {
			if other.fid == r.fid && (other.makes() || other.ends()) {
				return false, fmt.Errorf("%w: expected an answer before fid %d is used again", ErrMessage, r.fid)
			}
		}
	}
	if r.weight > f.files-f.weight || r.open > f.opens-f.open {
		return false, nil
	}
	f.weight += r.weight
	f.open += r.open
	f.pending[tag] = r
	return true, nil
}

// makes reports whether a request makes a file or opens one.
func (r request) makes() bool { return r.weight > 0 || r.open > 0 }

// ends reports whether a request ends a file, even if it fails.
func (r request) ends() bool { return r.kind == typeClunk || r.kind == typeRemove }

// end notes a reply.
func (f *fids) end(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.pending[tagOf(b)]
	if !ok {
		return
	}
	delete(f.pending, tagOf(b))
	old, had := f.held[r.fid]
	switch done := b[4] == r.kind+1; {
	case r.ends():
		f.drop(old)
		delete(f.held, r.fid)
	case !r.makes():
	case !done:
		f.drop(fid{r.weight, r.open > 0})
	case r.open > 0: // the fid of a directory in which a file is made becomes that of the file
		if old.open { // p9 opens none twice
			f.open--
		}
		f.held[r.fid] = fid{old.weight + r.weight, true}
	default:
		if had {
			f.drop(old)
		}
		f.held[r.fid] = fid{weight: r.weight}
	}
}

func (f *fids) drop(x fid) {
	f.weight -= x.weight
	if x.open {
		f.open--
	}
}
