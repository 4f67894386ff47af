package nfs

import (
	"bytes"
	"encoding/binary"

	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
)

// Procedures of NFS (RFC 1813 3.3).
const (
	procReadlink = 5
	procRead     = 6
	procMknod    = 11
	procLink     = 15
)

// Results of RPC (RFC 5531 9).
const (
	statUnavail   = 1 // program
	statMismatch  = 2 // version of the program
	statProcedure = 3
	statGarbage   = 4
)

// notPermitted is NFS3ERR_PERM. Linux has no error for programs that says NFS3ERR_NOTSUPP.
const notPermitted = 1

// Limits of arguments, bytes.
const (
	maxHandle = 64
	maxName   = 255
	maxPath   = 4096
	maxCount  = 1 << 20 // of data in a reply
)

// arguments are the arguments of each procedure: h is a file handle, n a name, p a path, d data, c a
// count of bytes that is limited, s attributes, and 4 and 8 are as many bytes. go-nfs trusts lengths,
// so they are checked here. What follows those is of no interest.
var arguments = map[uint32][]string{
	programNFS: {
		"", "h", "h", "hn", "h", "h", "h8c", "h844d", "hn", "hn", "hnsp", "", "hn", "hn", "hnhn", "", "h88c", "h88cc", "h", "h", "h", "h",
	},
	programMount: {"", "p", "", "p", "", ""},
}

// check checks a call. Calls that go-nfs must not see are answered.
func check(c wire.Call, call, reply []byte) (n int, answered bool, err error) {
	procedures, known := arguments[c.Program]
	switch {
	case !known:
		n, err = answer(c.XID, reply, statUnavail)
	case c.Version != version:
		n, err = answer(c.XID, reply, statMismatch, version, version)
	case c.Program == programNFS && c.Procedure == procMknod: // wcc_data of the directory
		n, err = answer(c.XID, reply, 0, notPermitted, 0, 0)
	case c.Program == programNFS && c.Procedure == procLink: // post_op_attr, wcc_data
		n, err = answer(c.XID, reply, 0, notPermitted, 0, 0, 0)
	case c.Procedure >= uint32(len(procedures)): // go-nfs has another number for that
		n, err = answer(c.XID, reply, statProcedure)
	case !valid(procedures[c.Procedure], call[c.Arguments:]):
		n, err = answer(c.XID, reply, statGarbage)
	default:
		return 0, false, nil
	}
	return n, true, err
}

// answer writes an accepted reply.
func answer(xid uint32, reply []byte, words ...uint32) (int, error) {
	b := reply[:0:len(reply)]
	for _, w := range append([]uint32{xid, 1, 0, 0, 0}, words...) {
		if cap(b)-len(b) < 4 {
			return 0, rpcrdma.ErrReplySize
		}
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return len(b), nil
}

// valid checks arguments, and limits counts.
func valid(kinds string, b []byte) bool {
	take := func(n int) []byte {
		if n > len(b) {
			b = nil
			return nil
		}
		t := b[:n:n]
		b = b[n:]
		return t
	}
	for _, kind := range kinds {
		ok := false
		switch kind {
		case 'h':
			_, ok = opaque(take, maxHandle)
		case 'p':
			_, ok = opaque(take, maxPath)
		case 'd':
			_, ok = opaque(take, len(b))
		case 'n':
			var name []byte
			name, ok = opaque(take, maxName)
			ok = ok && len(name) > 0 && !bytes.ContainsAny(name, "/\x00")
		case 's':
			ok = attributes(take)
		case 'c':
			count := take(4)
			if ok = count != nil; ok && binary.BigEndian.Uint32(count) > maxCount {
				binary.BigEndian.PutUint32(count, maxCount)
			}
		case '4', '8':
			ok = take(int(kind-'0')) != nil
		}
		if !ok {
			return false
		}
	}
	return true
}

// opaque takes an opaque item of at most limit bytes.
func opaque(take func(int) []byte, limit int) ([]byte, bool) {
	length := take(4)
	if length == nil {
		return nil, false
	}
	n := binary.BigEndian.Uint32(length)
	if int64(n) > int64(limit) {
		return nil, false
	}
	data := take(wire.Pad(int(n)))
	if data == nil && n > 0 {
		return nil, false
	}
	return data[:n], true
}

// attributes takes a sattr3.
func attributes(take func(int) []byte) bool {
	for _, size := range []int{4, 4, 4, 8} { // mode, uid, gid, size
		if set := take(4); set == nil || set[3] != 0 && take(size) == nil {
			return false
		}
	}
	for range 2 { // atime and mtime, by the client's clock
		if how := take(4); how == nil || how[3] == 2 && take(8) == nil {
			return false
		}
	}
	return true
}

// items returns the data items of a reply that clients may have in memory of their own (RFC 8267 4):
// the data of READ, and the path of READLINK.
func items(c wire.Call, reply []byte) []rpcrdma.Item {
	if c.Program != programNFS || c.Procedure != procRead && c.Procedure != procReadlink {
		return nil
	}
	at := 24 // the header of an accepted reply without verifier
	word := func() (w uint32, ok bool) {
		if len(reply) < at+4 {
			return 0, false
		}
		w = binary.BigEndian.Uint32(reply[at:])
		at += 4
		return w, true
	}
	if len(reply) < at || binary.BigEndian.Uint32(reply[20:]) != 0 { // not executed
		return nil
	}
	if status, ok := word(); !ok || status != 0 {
		return nil
	}
	switch follow, ok := word(); {
	case !ok:
		return nil
	case follow == 1:
		at += 84 // fattr3
	}
	if c.Procedure == procRead {
		at += 8 // count, eof
	}
	length, ok := word()
	if !ok || int64(length) > int64(len(reply)-at) {
		return nil
	}
	return []rpcrdma.Item{{Offset: at, Length: int(length)}}
}
