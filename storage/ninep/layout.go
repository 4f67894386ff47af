package ninep

import "encoding/binary"

// The requests that p9 answers, beside those that fids follow.
const (
	typeStatFS   = 8
	typeSymlink  = 16
	typeMknod    = 18
	typeRename   = 20
	typeReadLink = 22
	typeGetAttr  = 24
	typeSetAttr  = 26
	typeReadDir  = 40
	typeFsync    = 50
	typeLock     = 52
	typeLink     = 70
	typeMkdir    = 72
	typeRenameAt = 74
	typeUnlinkAt = 76
	typeVersion  = 100
	typeFlush    = 108
	typeRead     = 116
	typeWrite    = 118

	typeUserMkdir   = 130 // of p9's own client, as the next
	typeUserMknod   = 132
	typeUserSymlink = 134
)

// layouts are what follows the header of requests: a digit is as many bytes, s a string, n a number of
// strings, and d data up to the end of the message. More may follow, but not after data. Requests that are
// not here are not supported.
var layouts = [256]string{
	typeVersion:     "4s",
	typeStatFS:      "4",
	typeOpen:        "44",
	typeCreate:      "4s444",
	typeSymlink:     "4ss4",
	typeMknod:       "4s4444",
	typeRename:      "44s",
	typeReadLink:    "4",
	typeGetAttr:     "48",
	typeSetAttr:     "4444488888",
	typeReadDir:     "484",
	typeFsync:       "4",
	typeLock:        "414884s",
	typeLink:        "44s",
	typeMkdir:       "4s44",
	typeRenameAt:    "4s4s",
	typeUnlinkAt:    "4s4",
	typeAttach:      "44ss4",
	typeFlush:       "2",
	typeWalk:        "44n",
	typeRead:        "484",
	typeWrite:       "48d",
	typeClunk:       "4",
	typeRemove:      "4",
	typeWalkGetAttr: "44n",
	typeUserCreate:  "4s4444",
	typeUserMkdir:   "4s444",
	typeUserMknod:   "4s44444",
	typeUserSymlink: "4ss44",
}

// complete reports whether a supported request has all of its fields. p9 answers one that has not with an
// error without its tag, so that the client would wait for the answer.
func complete(b []byte) bool {
	layout := layouts[b[4]]
	b = b[headerLen:]
	take := func(n int) (field []byte, ok bool) {
		if n > len(b) {
			return nil, false
		}
		field, b = b[:n], b[n:]
		return field, true
	}
	str := func() bool {
		n, ok := take(2)
		if ok {
			_, ok = take(int(binary.LittleEndian.Uint16(n)))
		}
		return ok
	}
	for _, kind := range layout {
		ok := false
		var n []byte
		switch kind {
		case 's':
			ok = str()
		case 'n':
			if n, ok = take(2); ok {
				for i := binary.LittleEndian.Uint16(n); ok && i > 0; i-- {
					ok = str()
				}
			}
		case 'd':
			if n, ok = take(4); ok {
				ok = int64(binary.LittleEndian.Uint32(n)) == int64(len(b))
			}
		default:
			_, ok = take(int(kind - '0'))
		}
		if !ok {
			return false
		}
	}
	return true
}
