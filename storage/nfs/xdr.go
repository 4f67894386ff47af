package nfs

import (
	"bytes"
	"encoding/binary"

	"softrdma/storage/rpcrdma/wire"
)

// Limits of arguments, bytes.
const (
	maxHandle = 64
	maxName   = 255
	maxPath   = 4096
	maxCount  = 1 << 20 // of data in a call or a reply
)

// An args takes the arguments of a call. After one that is not valid, all are zero and bad is set.
type args struct {
	b   []byte
	bad bool
}

func (a *args) take(n int) []byte {
	if a.bad || n > len(a.b) {
		a.bad = true
		return nil
	}
	t := a.b[:n:n]
	a.b = a.b[n:]
	return t
}

func (a *args) uint32() uint32 {
	if b := a.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (a *args) uint64() uint64 {
	if b := a.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// choice takes a discriminant that is less than n.
func (a *args) choice(n uint32) uint32 {
	v := a.uint32()
	if v >= n {
		a.bad = true
		return 0
	}
	return v
}

// opaque takes an opaque item of at most limit bytes.
func (a *args) opaque(limit int) []byte {
	n := a.uint32()
	if int64(n) > int64(limit) {
		a.bad = true
		return nil
	}
	if b := a.take(wire.Pad(int(n))); b != nil {
		return b[:n]
	}
	return nil
}

func (a *args) handle() []byte { return a.opaque(maxHandle) }

// name takes a name in a directory, which has no slash.
func (a *args) name() string {
	b := a.opaque(maxName)
	if len(b) == 0 || bytes.ContainsAny(b, "/\x00") {
		a.bad = true
	}
	return string(b)
}

// path takes the target of a symbolic link.
func (a *args) path() string {
	b := a.opaque(maxPath)
	if bytes.IndexByte(b, 0) >= 0 {
		a.bad = true
	}
	return string(b)
}

func (a *args) time() timestamp {
	s := a.uint32()
	return timestamp{int64(s), a.uint32()}
}

// A sattr has the attributes to set (sattr3). A nil attribute is left as it is.
type sattr struct {
	mode, uid, gid *uint32
	size           *uint64
	atime, mtime   setTime
}

// A setTime says which time to set: none, that of the server, or that of the client.
type setTime struct {
	how uint32
	at  timestamp
}

const (
	keepTime = iota
	serverTime
	clientTime
)

func (a *args) sattr() (s sattr) {
	for _, v := range []**uint32{&s.mode, &s.uid, &s.gid} {
		if a.choice(2) == 1 {
			w := a.uint32()
			*v = &w
		}
	}
	if a.choice(2) == 1 {
		w := a.uint64()
		s.size = &w
	}
	for _, t := range []*setTime{&s.atime, &s.mtime} {
		if t.how = a.choice(3); t.how == clientTime {
			t.at = a.time()
		}
	}
	return s
}

// A results writes a reply into a buffer. After one that has no room, nothing is written and full is set.
type results struct {
	b    []byte // its capacity is the room
	full bool
}

// extend returns the next n bytes.
func (r *results) extend(n int) []byte {
	if r.full || n > cap(r.b)-len(r.b) {
		r.full = true
		return nil
	}
	at := len(r.b)
	r.b = r.b[:at+n]
	return r.b[at:]
}

func (r *results) uint32(values ...uint32) {
	for _, v := range values {
		if b := r.extend(4); b != nil {
			binary.BigEndian.PutUint32(b, v)
		}
	}
}

func (r *results) uint64(values ...uint64) {
	for _, v := range values {
		r.uint32(uint32(v>>32), uint32(v))
	}
}

func (r *results) bool(v bool) {
	if v {
		r.uint32(1)
	} else {
		r.uint32(0)
	}
}

func (r *results) opaque(data []byte) {
	r.uint32(uint32(len(data)))
	r.pad(copy(r.extend(wire.Pad(len(data))), data))
}

// string is opaque for a string.
func (r *results) string(s string) {
	r.uint32(uint32(len(s)))
	r.pad(copy(r.extend(wire.Pad(len(s))), s))
}

// pad clears the padding of an item of n bytes that was written last.
func (r *results) pad(n int) { clear(r.b[len(r.b)-(wire.Pad(n)-n):]) }

func (r *results) time(t timestamp) {
	// Times before 1970 and after 2106 have no form in version 3.
	r.uint32(uint32(min(max(t.sec, 0), 1<<32-1)), t.nsec)
}

// fattrLen is the length of a fattr3 in bytes.
const fattrLen = 84

// fattr writes a fattr3.
func (r *results) fattr(a attr) {
	r.uint32(a.kind, a.mode, a.links, a.uid, a.gid)
	r.uint64(a.size, a.used)
	r.uint32(a.major, a.minor)
	r.uint64(a.id.device, a.id.number)
	r.time(a.atime)
	r.time(a.mtime)
	r.time(a.ctime)
}
