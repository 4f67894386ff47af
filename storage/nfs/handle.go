package nfs

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
)

// A fileID names a file as long as it exists.
type fileID struct {
	device, number uint64
	birth          int64 // ns, 0 if the file system does not keep it
}

// handleLen is the length of a file handle in bytes: a fileID and a code that shows who has made it.
const (
	idLen     = 24
	handleLen = idLen + 8
)

func (id fileID) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, id.device)
	b = binary.BigEndian.AppendUint64(b, id.number)
	return binary.BigEndian.AppendUint64(b, uint64(id.birth))
}

// A key authenticates handles, so that a client cannot make the server search the directory for a handle that it has
// invented. A server of the same directory that is started later on the same machine has the same key.
type key [sha256.Size]byte

// newKey returns the key of a directory. If the machine has no machine-id(5), a client that has the handle of the top
// can compute the key.
func newKey(top fileID) key {
	secret, _ := os.ReadFile("/etc/machine-id") // the id must not be shown, so it is hashed
	return sha256.Sum256(top.append(append(secret, "softrdma NFS handles"...)))
}

// handle returns the handle of a file. Its code needs no HMAC, because the length of what is hashed is fixed.
func (k *key) handle(id fileID) []byte {
	b := id.append(append(make([]byte, 0, len(k)+idLen), k[:]...))
	sum := sha256.Sum256(b)
	return append(b[len(k):], sum[:handleLen-idLen]...)
}

// parse returns the file of a handle.
func (k *key) parse(b []byte) (fileID, error) {
	if len(b) != handleLen {
		return fileID{}, errBadHandle
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	id := fileID{word(0), word(1), int64(word(2))}
	if subtle.ConstantTimeCompare(b, k.handle(id)) == 0 {
		return fileID{}, errStale // it may be another server's
	}
	return id, nil
}

// A node is a file of which clients have a handle, at the places where it was seen. There are several
// if it has several names.
type node struct {
	id      fileID
	places  []place          // the newest last; the top has none
	entries map[string]*node // of a directory
}

// A place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// A tree knows where files are of which clients have handles. A caller that opens a file by a path of the tree
// compares it with the handle.
type tree struct {
	root *os.Root
	key  key

	// changing is held while names are changed, and shared while files are opened by names and added.
	// So no name that the service changes is in between.
	changing sync.RWMutex

	mu    sync.Mutex
	top   *node
	nodes map[fileID]*node
	scan  sync.Once
}

// start opens the top, whose handle MOUNT gives away.
func (t *tree) start() error {
	o, err := openObject(t.root, ".")
	if err != nil {
		return err
	}
	o.close()
	t.top = &node{id: o.at.id}
	t.key = newKey(t.top.id)
	t.nodes = map[fileID]*node{t.top.id: t.top}
	return nil
}

// add notes that a file is an entry of a directory.
func (t *tree) add(dir *node, name string, id fileID) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if t.nodes[dir.id] != dir || n == t.top {
		return n // the directory is gone, or contains itself by a mount
	}
	if old := dir.entries[name]; old != nil && old != n {
		t.drop(old, place{dir, name})
	}
	if n == nil {
		n = &node{id: id}
		t.nodes[id] = n
	}
	t.put(n, place{dir, name})
	return n
}

// put adds a place to a node, or makes it the newest.
func (t *tree) put(n *node, p place) {
	n.places = slices.DeleteFunc(n.places, func(x place) bool { return x == p })
	n.places = append(n.places, p)
	if p.dir.entries == nil {
		p.dir.entries = make(map[string]*node)
	}
	p.dir.entries[p.name] = n
}

// drop removes a place of a node. A node without a place is forgotten, with what is below it.
func (t *tree) drop(n *node, p place) {
	if p.dir.entries[p.name] == n {
		delete(p.dir.entries, p.name)
	}
	n.places = slices.DeleteFunc(n.places, func(x place) bool { return x == p })
	if len(n.places) > 0 || n == t.top {
		return
	}
	if t.nodes[n.id] == n {
		delete(t.nodes, n.id)
	}
	for name, below := range n.entries {
		t.drop(below, place{n, name})
	}
}

// removed notes that an entry was removed.
func (t *tree) removed(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := dir.entries[name]; n != nil {
		t.drop(n, place{dir, name})
	}
}

// gone notes that a file was not found at a place. Another file that got the place meanwhile keeps it.
func (t *tree) gone(n *node, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(n, p)
}

// entry returns the file that is known as an entry of a directory, nil if there is none.
func (t *tree) entry(dir *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return dir.entries[name]
}

// renamed notes that an entry was renamed. What is below it moves along.
func (t *tree) renamed(from *node, old string, to *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, replaced := from.entries[old], to.entries[name]
	if n == replaced && n != nil {
		return // a rename of one name of a file to another changes neither
	}
	if replaced != nil {
		t.drop(replaced, place{to, name})
	}
	if n == nil {
		return
	}
	if t.nodes[to.id] == to {
		t.put(n, place{to, name})
	}
	t.drop(n, place{from, old})
}

// A located is a place with its path in the root.
type located struct {
	place
	path string
}

// find returns a node and its paths, the newest first.
func (t *tree) find(id fileID) (n *node, paths []located) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = t.nodes[id]
	switch n {
	case nil:
		return nil, nil
	case t.top:
		return n, []located{{path: "."}}
	}
	for _, p := range slices.Backward(n.places) {
		names := []string{p.name}
		for at := p.dir; at != t.top; at = at.places[len(at.places)-1].dir {
			if len(at.places) == 0 || len(names) > maxPath {
				return n, paths // a directory that was moved into itself from outside
			}
			names = append(names, at.places[len(at.places)-1].name)
		}
		slices.Reverse(names)
		paths = append(paths, located{p, strings.Join(names, "/")})
	}
	return n, paths
}

// parent returns the directory that a directory is in.
func (t *tree) parent(n *node) (fileID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.places) == 0 {
		return fileID{}, errNoEntry // of the top, or of a directory that is gone
	}
	return n.places[len(n.places)-1].dir.id, nil
}

// open opens the file of a handle. The first handle that is not known is of an earlier run of the server:
// then the whole tree is searched, once. The caller shares changing.
func (t *tree) open(id fileID) (*object, error) {
	n, paths := t.find(id)
	if n == nil {
		t.scan.Do(t.search)
		n, paths = t.find(id)
	}
	err := error(errStale)
	for _, p := range paths {
		o, e := openObject(t.root, p.path)
		if e == nil && o.at.id == id {
			o.node = n
			return o, nil
		}
		if e == nil {
			o.close()
		}
		if e == nil || errors.Is(e, fs.ErrNotExist) {
			if n != t.top {
				t.gone(n, p.place)
			}
		} else if s := statusOf(e); s == errTryLater || s == errAccess {
			err = e // the file may be there
		}
	}
	return nil, err
}

// search finds the files of the tree.
func (t *tree) search() {
	dirs := map[string]*node{".": t.top}
	_ = fs.WalkDir(t.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return nil // what cannot be read has no handle
		}
		o, err := openObject(t.root, path)
		if err != nil {
			return nil
		}
		o.close()
		at, name := ".", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			at, name = path[:i], path[i+1:]
		}
		if dir := dirs[at]; dir != nil {
			if n := t.add(dir, name, o.at.id); d.IsDir() {
				dirs[path] = n
			}
		}
		return nil
	})
}

// lookup opens an entry of a directory, and gives it a handle. The caller holds or shares changing.
func (t *tree) lookup(dir *object, name string) (*object, error) {
	if err := dir.isDirectory(); err != nil {
		return nil, err
	}
	switch name {
	case ".":
		return t.open(dir.at.id)
	case "..":
		id, err := t.parent(dir.node)
		if err != nil {
			return nil, err
		}
		return t.open(id)
	}
	before := t.entry(dir.node, name)
	o, err := dir.child(name)
	if err != nil {
		if before != nil && errors.Is(err, fs.ErrNotExist) {
			t.gone(before, place{dir.node, name})
		}
		return nil, err
	}
	o.node = t.add(dir.node, name, o.at.id)
	return o, nil
}
