package host

import (
	"context"
	"errors"
	"fmt"

	"softrdma/storage/nvmeof/wire/logpage"
)

// Discover returns the entries of the discovery log of a target.
func Discover(ctx context.Context, addr string, cfg Config) (list []logpage.DiscoveryEntry, err error) {
	cfg.Subsystem, cfg.KeepAlive, cfg.LossTimeout = logpage.DiscoveryNQN, -1, 0
	c, err := Dial(ctx, addr, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for range 5 { // the log may change in between
		head, err := c.discoveryHead(ctx)
		if err != nil {
			return nil, err
		}
		list, failed := c.discoveryEntries(ctx, head.Entries)
		again, err := c.discoveryHead(ctx)
		switch {
		case err != nil:
			return nil, err
		case again == head:
			return list, failed
		}
	}
	return nil, errors.New("the discovery log changes all the time")
}

// maxDiscovered is how many entries of a discovery log are read at most.
const maxDiscovered = 8192

func (c *Controller) discoveryHead(ctx context.Context) (h logpage.DiscoveryHead, err error) {
	b := make([]byte, logpage.DiscoveryHeadLen)
	if _, err = c.Admin(ctx, logpage.Command(logpage.Discovery, 0, logpage.DiscoveryHeadLen), b); err != nil {
		return h, err
	}
	return logpage.ParseDiscoveryHead(b)
}

// discoveryEntries reads entries of the discovery log, as many at a time as a command may move.
func (c *Controller) discoveryEntries(ctx context.Context, n uint64) (list []logpage.DiscoveryEntry, err error) {
	if n > maxDiscovered {
		return nil, fmt.Errorf("discovery log: expected at most %d entries, found %d", maxDiscovered, n)
	}
	l, err := c.live()
	if err != nil {
		return nil, err
	}
	all := make([]byte, n*logpage.DiscoveryEntryLen)
	for at := 0; at < len(all); {
		part := all[at:min(at+min(slotBytes, limitOf(l)), len(all))]
		get := logpage.Command(logpage.Discovery, uint64(logpage.DiscoveryHeadLen+at), uint32(len(part)))
		if _, err := l.admin.do(ctx, get, part); err != nil {
			return nil, err
		}
		at += len(part)
	}
	for ; len(all) > 0; all = all[logpage.DiscoveryEntryLen:] {
		e, err := logpage.ParseDiscoveryEntry(all)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}
