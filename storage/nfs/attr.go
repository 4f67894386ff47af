package nfs

// Kinds of files (ftype3).
const (
	kindFile = iota + 1
	kindDirectory
	kindBlock
	kindCharacter
	kindLink
	kindSocket
	kindFIFO
)

// modeBits are the bits of a mode that clients may set. They may make no program that runs as the user
// of the server, so the bits that change the user and the group of a program are left out.
const modeBits = 0o1777

// A timestamp is a time since 1970.
type timestamp struct {
	sec  int64
	nsec uint32
}

// An attr has the attributes of a file.
type attr struct {
	id                  fileID
	kind, mode          uint32
	links, uid, gid     uint32
	size, used          uint64
	major, minor        uint32 // of a device
	atime, mtime, ctime timestamp
}

// apply sets attributes of an object.
func (o *object) apply(s sattr) error {
	if s.size != nil {
		if *s.size > 1<<63-1 {
			return errTooBig
		}
		f, err := o.open(false, true)
		if err != nil {
			return err
		}
		err = f.Truncate(int64(*s.size))
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	if s.mode != nil && o.at.kind != kindLink {
		if err := o.chmod(*s.mode & modeBits); err != nil {
			return err
		}
	}
	if s.uid != nil || s.gid != nil {
		uid, gid := -1, -1
		if s.uid != nil {
			uid = int(*s.uid)
		}
		if s.gid != nil {
			gid = int(*s.gid)
		}
		if err := o.chown(uid, gid); err != nil {
			return err
		}
	}
	if s.atime.how == keepTime && s.mtime.how == keepTime {
		return nil
	}
	return o.setTimes(s.atime, s.mtime)
}

// openable refuses to open what is no regular file.
func (o *object) openable() error {
	switch o.at.kind {
	case kindFile:
		return nil
	case kindDirectory:
		return errIsDirectory
	}
	return errInvalid
}

// isDirectory refuses what is no directory.
func (o *object) isDirectory() error {
	if o.at.kind != kindDirectory {
		return errNotDirectory
	}
	return nil
}
