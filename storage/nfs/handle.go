package nfs

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// A fileID names a file as long as it exists.
type fileID struct {
	device, number uint64
	birth          int64 // ns, 0 if the file system does not keep it
}

// handleLen is the length of a file handle in bytes.
const handleLen = 24

var errHandle = errors.New("file handle names no file")

// bytes returns the file handle.
func (id fileID) bytes() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, handleLen), id.device)
	b = binary.BigEndian.AppendUint64(b, id.number)
	return binary.BigEndian.AppendUint64(b, uint64(id.birth))
}

// parseHandle parses a file handle.
func parseHandle(b []byte) (fileID, error) {
	if len(b) != handleLen {
		return fileID{}, errHandle
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return fileID{word(0), word(1), int64(word(2))}, nil
}

// handles knows where files are of which clients have handles. Every use of a path compares the file.
type handles struct {
	mu    sync.Mutex
	paths map[fileID]string
	scan  sync.Once
}

func (h *handles) set(id fileID, path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paths == nil {
		h.paths = make(map[fileID]string)
	}
	h.paths[id] = path
}

func (h *handles) path(id fileID) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.paths[id]
	return p, ok
}

func (h *handles) forget(id fileID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.paths, id)
}

// removed forgets a file whose name at a path is gone, unless it is known by another.
func (h *handles) removed(id fileID, path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paths[id] == path {
		delete(h.paths, id)
	}
}

// renamed moves the paths of a file and of what is below it.
func (h *handles) renamed(from, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, p := range h.paths {
		if p == from {
			h.paths[id] = to
		} else if rest, below := strings.CutPrefix(p, from+"/"); below {
			h.paths[id] = to + "/" + rest
		}
	}
}

// handle returns the handle of a path, and one that names no file if there is none.
func (t *tree) handle(path string) []byte {
	id, err := identify(t.root, path)
	if err != nil {
		return make([]byte, handleLen)
	}
	t.handles.set(id, path)
	return id.bytes()
}

// resolve returns the path of a handle. The first handle that is not known is of an earlier run of the
// server: then the whole tree is searched, once.
func (t *tree) resolve(b []byte) (string, error) {
	id, err := parseHandle(b)
	if err != nil {
		return "", err
	}
	p, ok := t.handles.path(id)
	if !ok {
		t.handles.scan.Do(t.search)
		if p, ok = t.handles.path(id); !ok {
			return "", errHandle
		}
	}
	if now, err := identify(t.root, p); err != nil || now != id {
		t.handles.forget(id)
		return "", errHandle
	}
	return p, nil
}

// search finds the files of the tree.
func (t *tree) search() {
	_ = fs.WalkDir(t.root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read has no handle
		}
		if id, err := identify(t.root, path); err == nil {
			t.handles.set(id, path)
		}
		return nil
	})
}

// statID returns the identity that Lstat knows.
func statID(root *os.Root, path string) (fileID, error) {
	info, err := root.Lstat(path)
	if err != nil {
		return fileID{}, err
	}
	return infoID(info, path), nil
}
