package nbd

import (
	"fmt"
	"io"
)

// handshake lets the client choose the export. It reports whether commands follow.
func (c *client) handshake() (bool, error) {
	b := be.AppendUint64(nil, magicServer)
	b = be.AppendUint64(b, magicOption)
	b = be.AppendUint16(b, flagFixed|flagNoZeroes)
	if _, err := c.conn.Write(b); err != nil {
		return false, err
	}
	var flags [4]byte
	if _, err := io.ReadFull(c.in, flags[:]); err != nil {
		return false, err
	}
	client := be.Uint32(flags[:])
	if client&^(flagFixed|flagNoZeroes) != 0 || client&flagFixed == 0 {
		return false, fmt.Errorf("NBD handshake: expected the flag fixed newstyle of the client, found flags %#x", client)
	}
	for {
		var head [optionHeader]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return false, err
		}
		option, length, err := parseOption(head[:])
		if err != nil {
			return false, err
		}
		if length > maxOption {
			if _, err := io.CopyN(io.Discard, c.in, int64(length)); err != nil {
				return false, err
			}
			if err := c.reply(option, errTooLong, nil); err != nil {
				return false, err
			}
			continue
		}
		data := make([]byte, length)
		if _, err := io.ReadFull(c.in, data); err != nil {
			return false, err
		}
		done, goes, err := c.option(option, data, client)
		if done || err != nil {
			return goes, err
		}
	}
}

// option answers an option. It reports whether the handshake is over, and whether commands follow.
func (c *client) option(option uint32, data []byte, flags uint32) (done, goes bool, err error) {
	switch option {
	case optExportName:
		if !c.has(string(data)) { // there is no other answer
			return true, false, fmt.Errorf("NBD handshake: expected export %q, found %q", c.s.Name, data)
		}
		b := be.AppendUint64(nil, uint64(c.s.Backend.Size()))
		b = be.AppendUint16(b, c.s.flags())
		if flags&flagNoZeroes == 0 {
			b = append(b, make([]byte, 124)...)
		}
		_, err := c.conn.Write(b)
		return true, true, err
	case optAbort:
		_ = c.reply(option, replyAck, nil) // the client may have closed the connection
		return true, false, nil
	case optList:
		if len(data) != 0 {
			return false, false, c.reply(option, errInvalid, nil)
		}
		name := be.AppendUint32(nil, uint32(len(c.s.Name)))
		if err := c.reply(option, replyServer, append(name, c.s.Name...)); err != nil {
			return false, false, err
		}
		return false, false, c.reply(option, replyAck, nil)
	case optStructured:
		if len(data) != 0 {
			return false, false, c.reply(option, errInvalid, nil)
		}
		c.structured = true
		return false, false, c.reply(option, replyAck, nil)
	case optInfo, optGo:
		ok, err := c.info(option, data)
		return ok && option == optGo, ok, err
	}
	return false, false, c.reply(option, errUnknown, nil)
}

// has reports whether there is an export of a name.
func (c *client) has(name string) bool { return name == "" || name == c.s.Name }

// info answers optInfo and optGo. It reports whether there is such an export.
func (c *client) info(option uint32, data []byte) (ok bool, err error) {
	name, _, err := parseInfo(data)
	switch {
	case err != nil:
		return false, c.reply(option, errInvalid, []byte(err.Error()))
	case !c.has(name):
		return false, c.reply(option, errNoExport, nil)
	}
	b := be.AppendUint16(nil, infoExport)
	b = be.AppendUint64(b, uint64(c.s.Backend.Size()))
	if err := c.reply(option, replyInfo, be.AppendUint16(b, c.s.flags())); err != nil {
		return false, err
	}
	// Clients that have not asked may be told, too.
	block := uint32(c.s.Backend.BlockSize())
	b = be.AppendUint16(nil, infoBlocks)
	b = be.AppendUint32(b, block)
	b = be.AppendUint32(b, max(block, 4096))
	if err := c.reply(option, replyInfo, be.AppendUint32(b, maxPayload)); err != nil {
		return false, err
	}
	return true, c.reply(option, replyAck, nil)
}

// reply replies to an option.
func (c *client) reply(option, kind uint32, data []byte) error {
	b := be.AppendUint64(nil, magicReply)
	b = be.AppendUint32(b, option)
	b = be.AppendUint32(b, kind)
	b = be.AppendUint32(b, uint32(len(data)))
	_, err := c.conn.Write(append(b, data...))
	return err
}
