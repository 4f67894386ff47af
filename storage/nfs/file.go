package nfs

import (
	"errors"
	"io"

	"softrdma/storage/rpcrdma"
)

// procedures are the procedures of NFS (RFC 1813 3.3), by number.
var procedures = [...]procedure{
	0:  {run: (*call).null},
	1:  {run: (*call).getattr},
	2:  {run: (*call).setattr, failed: "w", changes: true},
	3:  {run: (*call).lookup, failed: "a"},
	4:  {run: (*call).access, failed: "a"},
	5:  {run: (*call).readlink, failed: "a"},
	6:  {run: (*call).read, failed: "a"},
	7:  {run: (*call).write, failed: "w", changes: true},
	8:  {run: (*call).create, failed: "w", changes: true},
	9:  {run: (*call).mkdir, failed: "w", changes: true},
	10: {run: (*call).symlink, failed: "w", changes: true},
	11: {run: (*call).mknod, failed: "w", changes: true},
	12: {run: (*call).remove, failed: "w", changes: true},
	13: {run: (*call).rmdir, failed: "w", changes: true},
	14: {run: (*call).rename, failed: "ww", changes: true},
	15: {run: (*call).link, failed: "aw", changes: true},
	16: {run: (*call).readdir, failed: "a"},
	17: {run: (*call).readdirplus, failed: "a"},
	18: {run: (*call).fsstat, failed: "a"},
	19: {run: (*call).fsinfo, failed: "a"},
	20: {run: (*call).pathconf, failed: "a"},
	21: {run: (*call).commit, failed: "w"},
}

func (c *call) null() error { return nil }

func (c *call) getattr() error {
	o, err := c.open(c.args.handle())
	if err != nil {
		return err
	}
	c.ok()
	c.results.fattr(o.at)
	return nil
}

// setattr sets attributes. A guard is the time of the last change that the client knows.
func (c *call) setattr() error {
	handle, set, guarded, guard := c.args.handle(), c.args.sattr(), false, timestamp{}
	if guarded = c.args.choice(2) == 1; guarded {
		guard = c.args.time()
	}
	o, err := c.open(handle)
	if err != nil {
		return err
	}
	if guarded { // no other guarded call is executed between the comparison and the change
		c.s.tree.changing.Lock()
		defer c.s.tree.changing.Unlock()
		if a, err := o.stat(); err != nil {
			return err
		} else if a.ctime != guard {
			return errNotSync
		}
	}
	if err := o.apply(set); err != nil {
		return err
	}
	c.ok()
	c.wcc(0)
	return nil
}

// Rights of ACCESS (RFC 1813 3.3.4), and of access(2).
const (
	accessRead    = 1
	accessLookup  = 2
	accessModify  = 4
	accessExtend  = 8
	accessDelete  = 16
	accessExecute = 32

	mayExecute = 1
	mayWrite   = 2
	mayRead    = 4
)

// access answers what the user that runs the server may do.
func (c *call) access() error {
	handle, want := c.args.handle(), c.args.uint32()
	o, err := c.open(handle)
	if err != nil {
		return err
	}
	granted := uint32(0)
	directory := o.at.kind == kindDirectory
	if o.may(mayRead) {
		granted |= accessRead
	}
	if !c.s.readOnly && o.may(mayWrite) {
		if granted |= accessModify | accessExtend; directory {
			granted |= accessDelete
		}
	}
	if o.may(mayExecute) {
		if directory {
			granted |= accessLookup
		} else {
			granted |= accessExecute
		}
	}
	c.ok()
	c.postOp(0)
	c.results.uint32(granted & want)
	return nil
}

func (c *call) readlink() error {
	o, err := c.open(c.args.handle())
	if err != nil {
		return err
	}
	if o.at.kind != kindLink {
		return errInvalid
	}
	target, err := o.readlink()
	if err != nil {
		return err
	}
	c.ok()
	c.postOp(0)
	c.results.string(target)
	if !c.results.full {
		c.items = []rpcrdma.Item{{Offset: len(c.results.b) - padded(len(target)), Length: len(target)}}
	}
	return nil
}

// read reads into the reply itself.
func (c *call) read() error {
	handle, offset, count := c.args.handle(), c.args.uint64(), min(c.args.uint32(), maxCount)
	o, err := c.open(handle)
	if err != nil {
		return err
	}
	f, err := o.open(true, false)
	if err != nil {
		return err
	}
	defer f.Close()
	header := acceptedLen + 4 + 4 + fattrLen + 12
	room := cap(c.results.b) - header
	if room < padded(int(count)) {
		return rpcrdma.ErrReplySize
	}
	n, eof := 0, true
	if offset < 1<<63 {
		n, err = f.ReadAt(c.results.b[:cap(c.results.b)][header:header+int(count)], int64(offset))
		if eof = errors.Is(err, io.EOF); err != nil && !eof {
			return err
		}
	}
	a, err := o.stat()
	if err != nil {
		return err
	}
	if offset < 1<<63 && offset+uint64(n) >= a.size {
		eof = true
	}
	c.ok()
	c.results.uint32(1)
	c.results.fattr(a)
	c.results.uint32(uint32(n))
	c.results.bool(eof)
	c.results.uint32(uint32(n))
	c.results.extend(padded(n))
	c.results.pad(n)
	c.items = []rpcrdma.Item{{Offset: header, Length: n}}
	return nil
}

// Stability of written data (stable_how).
const (
	unstable = iota
	dataSync
	fileSync
)

func (c *call) write() error {
	handle, offset, count, how, data := c.args.handle(), c.args.uint64(), c.args.uint32(), c.args.choice(fileSync+1), c.args.opaque(maxCount)
	if int64(count) != int64(len(data)) {
		c.args.bad = true
	}
	o, err := c.open(handle)
	if err != nil {
		return err
	}
	if offset > 1<<63-1-uint64(len(data)) {
		return errTooBig
	}
	f, err := o.open(false, true)
	if err != nil {
		return err
	}
	verifier := c.s.verifier.Load() // before, so that it does not say that lost data was written later
	n, err := f.WriteAt(data, int64(offset))
	if n > 0 {
		err = nil // a short write is answered as one
	}
	if err == nil && how != unstable {
		err = c.s.stable(f)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	c.ok()
	c.wcc(0)
	c.results.uint32(uint32(n), how)
	c.results.uint64(verifier)
	return nil
}

// commit makes data stable. The whole file is, whatever the range.
func (c *call) commit() error {
	handle := c.args.handle()
	c.args.uint64()
	c.args.uint32()
	o, err := c.open(handle)
	if err != nil {
		return err
	}
	f, err := o.open(true, false)
	if err != nil && statusOf(err) == errAccess { // a file that may be written only
		f, err = o.open(false, true)
	}
	if err != nil {
		return err
	}
	err = c.s.stable(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	c.ok()
	c.wcc(0)
	c.results.uint64(c.s.verifier.Load())
	return nil
}
