package nfs

// A space is the space of a file system: bytes, and files.
type space struct{ total, free, available, files, freeFiles, availableFiles uint64 }

func (c *call) fsstat() error {
	o, err := c.open(c.args.handle())
	if err != nil {
		return err
	}
	s, err := o.space()
	if err != nil {
		return err
	}
	c.ok()
	c.postOp(0)
	c.results.uint64(s.total, s.free, s.available, s.files, s.freeFiles, s.availableFiles)
	c.results.uint32(0) // the numbers may change at any time
	return nil
}

// Properties of FSINFO: hard links, symbolic links, all files alike, times can be set.
const properties = 1 | 2 | 8 | 16

func (c *call) fsinfo() error {
	o, err := c.open(c.args.handle())
	if err != nil {
		return err
	}
	const multiple, listing = 4096, 64 << 10
	c.ok()
	c.attributes(o)
	c.results.uint32(maxCount, maxCount, multiple, maxCount, maxCount, multiple, listing)
	c.results.uint64(1<<63 - 1) // bytes of a file
	c.results.uint32(0, 1)      // times have nanoseconds
	c.results.uint32(properties)
	return nil
}

func (c *call) pathconf() error {
	o, err := c.open(c.args.handle())
	if err != nil {
		return err
	}
	const links = 65000 // names of a file, as ext4 has them
	c.ok()
	c.attributes(o)
	c.results.uint32(links, maxName, 1, 1, 0, 1) // long names are refused, chown is restricted, case matters and is kept
	return nil
}
