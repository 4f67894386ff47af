package nfs

import (
	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
)

func padded(n int) int { return wire.Pad(n) }

func (c *call) lookup() error {
	handle, name := c.args.handle(), c.args.name()
	dir, err := c.directory(handle)
	if err != nil {
		return err
	}
	c.s.tree.changing.RLock()
	o, err := c.s.tree.lookup(dir, name)
	c.s.tree.changing.RUnlock()
	if err != nil {
		return err
	}
	defer o.close()
	c.ok()
	c.results.opaque(c.s.tree.key.handle(o.at.id))
	c.results.uint32(1)
	c.results.fattr(o.at)
	c.postOp(0)
	return nil
}

// plain refuses names that no entry can be given.
func plain(name string) error {
	if name == "." || name == ".." {
		return errInvalid
	}
	return nil
}

// change changes an entry of a directory. Nothing else changes names meanwhile.
func (c *call) change(dir *object, name string, how func() error) error {
	if err := plain(name); err != nil {
		return err
	}
	c.s.tree.changing.Lock()
	defer c.s.tree.changing.Unlock()
	return how()
}

// make makes an entry, sets its attributes, and answers with its handle. If how fails because the entry
// exists, exists says whether that is a success, and what is set.
func (c *call) make(handle []byte, name string, set sattr, how func(dir *object) error, exists func(*object) (sattr, error)) error {
	dir, err := c.directory(handle)
	if err != nil {
		return err
	}
	var made *object
	err = c.change(dir, name, func() error {
		err := how(dir)
		there := err != nil && exists != nil && statusOf(err) == errExists
		if err != nil && !there {
			return err
		}
		if made, err = c.s.tree.lookup(dir, name); err != nil {
			return err
		}
		if there {
			if set, err = exists(made); err != nil {
				return err
			}
		}
		return made.apply(set)
	})
	if made != nil {
		defer made.close()
	}
	if err != nil {
		return err
	}
	c.ok()
	c.results.uint32(1)
	c.results.opaque(c.s.tree.key.handle(made.at.id))
	c.attributes(made)
	c.wcc(0)
	return nil
}

// Modes of CREATE (createmode3).
const (
	unchecked = iota
	guarded
	exclusive
)

func (c *call) create() error {
	handle, name, how := c.args.handle(), c.args.name(), c.args.choice(exclusive+1)
	var set sattr
	var verifier uint64
	if how == exclusive {
		verifier = c.args.uint64()
		set = verifierTimes(verifier)
	} else {
		set = c.args.sattr()
	}
	mode := uint32(0o666)
	if set.mode != nil {
		mode = *set.mode & modeBits
	}
	var exists func(*object) (sattr, error)
	switch how {
	case unchecked: // the size may be set of a file that exists
		exists = func(o *object) (sattr, error) {
			if o.at.kind != kindFile {
				return sattr{}, errExists
			}
			return sattr{size: set.size}, nil
		}
	case exclusive: // a file that exists may be that of a call which was repeated (RFC 1813 3.3.8)
		exists = func(o *object) (sattr, error) {
			want := verifierTimes(verifier)
			if o.at.kind != kindFile || o.at.size != 0 || o.at.atime != want.atime.at || o.at.mtime != want.mtime.at {
				return sattr{}, errExists
			}
			return sattr{}, nil
		}
	}
	return c.make(handle, name, set, func(dir *object) error { return dir.create(name, mode) }, exists)
}

// verifierTimes keeps the verifier of an exclusive CREATE in the times of the file, with the bits that
// every file system stores. The client sets other times afterwards.
func verifierTimes(v uint64) sattr {
	at := func(half uint64) setTime { return setTime{clientTime, timestamp{sec: int64(half & (1<<31 - 1))}} }
	return sattr{atime: at(v >> 32), mtime: at(v)}
}

func (c *call) mkdir() error {
	handle, name, set := c.args.handle(), c.args.name(), c.args.sattr()
	mode := uint32(0o777)
	if set.mode != nil {
		mode = *set.mode & modeBits
	}
	return c.make(handle, name, set, func(dir *object) error { return dir.mkdir(name, mode) }, nil)
}

// symlink makes a link. Its target is the client's business: no path of the server follows it.
func (c *call) symlink() error {
	handle, name, set, target := c.args.handle(), c.args.name(), c.args.sattr(), c.args.path()
	set.mode, set.size = nil, nil
	return c.make(handle, name, set, func(dir *object) error { return dir.symlink(target, name) }, nil)
}

// mknod makes FIFOs and sockets. Devices would be those of the server's system.
func (c *call) mknod() error {
	handle, name, kind := c.args.handle(), c.args.name(), c.args.uint32()
	var set sattr
	var err error
	switch kind {
	case kindFIFO, kindSocket:
		set = c.args.sattr()
		set.size = nil
	case kindBlock, kindCharacter:
		c.args.sattr()
		c.args.uint64()
		err = errNotSupported
	default:
		err = errBadType
	}
	mode := uint32(0o666)
	if set.mode != nil {
		mode = *set.mode & modeBits
	}
	return c.make(handle, name, set, func(dir *object) error {
		if err != nil {
			return err
		}
		return dir.mknod(name, kind, mode)
	}, nil)
}

func (c *call) remove() error { return c.unlink(false) }
func (c *call) rmdir() error  { return c.unlink(true) }

func (c *call) unlink(directory bool) error {
	handle, name := c.args.handle(), c.args.name()
	dir, err := c.directory(handle)
	if err != nil {
		return err
	}
	err = c.change(dir, name, func() error {
		if err := dir.remove(name, directory); err != nil {
			return err
		}
		c.s.tree.removed(dir.node, name)
		return nil
	})
	if err != nil {
		return err
	}
	c.ok()
	c.wcc(0)
	return nil
}

func (c *call) rename() error {
	fromHandle, from := c.args.handle(), c.args.name()
	toHandle, to := c.args.handle(), c.args.name()
	fromDir, err := c.directory(fromHandle)
	if err != nil {
		return err
	}
	toDir, err := c.directory(toHandle)
	if err != nil {
		return err
	}
	err = c.change(fromDir, from, func() error {
		if err := plain(to); err != nil {
			return err
		}
		if err := fromDir.rename(from, toDir, to); err != nil {
			return err
		}
		c.s.tree.renamed(fromDir.node, from, toDir.node, to)
		return nil
	})
	if err != nil {
		return err
	}
	c.ok()
	c.wcc(0)
	c.wcc(1)
	return nil
}

func (c *call) link() error {
	fileHandle, dirHandle, name := c.args.handle(), c.args.handle(), c.args.name()
	file, err := c.open(fileHandle)
	if err != nil {
		return err
	}
	dir, err := c.directory(dirHandle)
	if err != nil {
		return err
	}
	if file.at.kind == kindDirectory {
		return errIsDirectory
	}
	err = c.change(dir, name, func() error {
		if err := dir.link(file, name); err != nil {
			return err
		}
		c.s.tree.add(dir.node, name, file.at.id)
		return nil
	})
	if err != nil {
		return err
	}
	c.ok()
	c.postOp(0)
	c.wcc(1)
	return nil
}

// entryLen is what an entry of READDIR has besides its name, and plusLen what READDIRPLUS adds at most.
const (
	entryLen = 4 + 8 + 4 + 8
	plusLen  = 4 + fattrLen + 4 + 4 + handleLen
	endLen   = 8 // no entry follows, and eof
)

func (c *call) readdir() error {
	handle, cookie, verifier, count := c.args.handle(), c.args.uint64(), c.args.uint64(), c.args.uint32()
	return c.list(handle, cookie, verifier, count, count, false)
}

func (c *call) readdirplus() error {
	handle, cookie, verifier := c.args.handle(), c.args.uint64(), c.args.uint64()
	names, count := c.args.uint32(), c.args.uint32()
	return c.list(handle, cookie, verifier, names, count, true)
}

// list answers with entries of a directory. The names and cookies may take some bytes, and the whole
// result some. Cookies are valid as long as the directory exists, so the verifier is 0.
func (c *call) list(handle []byte, cookie, verifier uint64, names, count uint32, plus bool) error {
	dir, err := c.directory(handle)
	if err != nil {
		return err
	}
	if verifier != 0 {
		return errBadCookie
	}
	c.ok()
	c.postOp(0)
	c.results.uint64(0)
	// The limit of results counts from the status on (RFC 1813 3.3.16).
	limit := min(int64(acceptedLen)+int64(min(count, maxCount)), int64(cap(c.results.b))) - endLen
	if int64(len(c.results.b)) > limit {
		return tooSmall(count)
	}
	first, eof := len(c.results.b), true
	c.s.tree.changing.RLock()
	defer c.s.tree.changing.RUnlock()
	err = dir.list(cookie, func(name string, number, next uint64) bool {
		if name == ".." {
			number = c.s.tree.up(dir)
		}
		at := len(c.results.b)
		c.results.uint32(1)
		c.results.uint64(number)
		c.results.string(name)
		c.results.uint64(next)
		if plus {
			c.plus(dir, name)
		}
		taken := entryLen + padded(len(name))
		if c.results.full || int64(len(c.results.b)) > limit || int64(taken) > int64(names) && at > first {
			c.results.b, c.results.full, eof = c.results.b[:at], false, false
			return false
		}
		names -= uint32(min(int64(taken), int64(names)))
		return true
	})
	switch {
	case err != nil:
		return err
	case !eof && len(c.results.b) == first:
		return tooSmall(count)
	}
	c.results.uint32(0)
	c.results.bool(eof)
	return nil
}

// tooSmall says that not even one entry has room: in the count of the client, or in its memory.
func tooSmall(count uint32) error {
	if count < acceptedLen+fattrLen+entryLen+maxName+plusLen+endLen {
		return errTooSmall
	}
	return rpcrdma.ErrReplySize
}

// up returns the number that ".." has.
func (t *tree) up(dir *object) uint64 {
	if id, err := t.parent(dir.node); err == nil {
		return id.number
	}
	return dir.at.id.number
}

// plus writes the attributes and the handle of an entry. One that is gone meanwhile has neither.
func (c *call) plus(dir *object, name string) {
	if name == ".." || name == "." {
		c.results.uint32(0, 0)
		return
	}
	o, err := c.s.tree.lookup(dir, name)
	if err != nil {
		c.results.uint32(0, 0)
		return
	}
	defer o.close()
	c.results.uint32(1)
	c.results.fattr(o.at)
	c.results.uint32(1)
	c.results.opaque(c.s.tree.key.handle(o.at.id))
}
