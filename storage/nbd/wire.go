package nbd

import (
	"encoding/binary"
	"fmt"
)

var be = binary.BigEndian

// Magic numbers.
const (
	magicServer    = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption    = 0x49484156454f5054 // "IHAVEOPT"
	magicReply     = 0x0003e889045565a9 // to an option
	magicRequest   = 0x25609513
	magicSimple    = 0x67446698
	magicStructure = 0x668e33ef
)

// Flags of the handshake, the same of server and client.
const (
	flagFixed    = 1 << 0 // fixed newstyle
	flagNoZeroes = 1 << 1 // of the reply to optExportName
)

// Options of the handshake.
const (
	optExportName = 1
	optAbort      = 2
	optList       = 3
	optInfo       = 6
	optGo         = 7
	optStructured = 8
)

// Types of replies to options.
const (
	replyAck     = 1
	replyServer  = 2
	replyInfo    = 3
	errUnknown   = 1<<31 | 1 // option
	errInvalid   = 1<<31 | 3
	errNoExport  = 1<<31 | 6
	errTooLong   = 1<<31 | 9
	infoExport   = 0
	infoBlocks   = 3
	optionHeader = 16
	maxOption    = 16 << 10 // bytes of an option's data
	maxName      = 4096
)

// Flags of an export.
const (
	exportHasFlags  = 1 << 0
	exportReadOnly  = 1 << 1
	exportFlush     = 1 << 2
	exportFUA       = 1 << 3
	exportTrim      = 1 << 5
	exportZeroes    = 1 << 6
	exportDF        = 1 << 7
	exportMultiConn = 1 << 8
)

// Commands, and their flags.
const (
	cmdRead    = 0
	cmdWrite   = 1
	cmdEnd     = 2
	cmdFlush   = 3
	cmdTrim    = 4
	cmdZeroes  = 6
	flagFUA    = 1 << 0
	flagNoHole = 1 << 1
	flagDF     = 1 << 2
)

// Errors of commands.
const (
	errPermission = 1  // EPERM
	errIO         = 5  // EIO
	errArgument   = 22 // EINVAL
	errSpace      = 28 // ENOSPC
)

// Chunks of structured replies.
const (
	chunkDone   = 1 << 0
	chunkNone   = 0
	chunkData   = 1
	chunkError  = 1<<15 | 1
	chunkHeader = 20
)

// requestLen is the length of a request in bytes.
const requestLen = 28

// A request is a command of a client, without the data of a write.
type request struct {
	flags, kind uint16
	cookie      uint64
	offset      uint64
	length      uint32
}

// parseRequest parses the bytes of a request.
func parseRequest(b []byte) (request, error) {
	if len(b) < requestLen {
		return request{}, fmt.Errorf("NBD request: expected %d bytes, found %d", requestLen, len(b))
	}
	if m := be.Uint32(b); m != magicRequest {
		return request{}, fmt.Errorf("NBD request: magic number: expected %#x, found %#x", magicRequest, m)
	}
	return request{be.Uint16(b[4:]), be.Uint16(b[6:]), be.Uint64(b[8:]), be.Uint64(b[16:]), be.Uint32(b[24:])}, nil
}

// parseOption parses the header of an option.
func parseOption(b []byte) (option, length uint32, err error) {
	if len(b) < optionHeader {
		return 0, 0, fmt.Errorf("NBD option: expected %d bytes, found %d", optionHeader, len(b))
	}
	if m := be.Uint64(b); m != magicOption {
		return 0, 0, fmt.Errorf("NBD option: magic number: expected %#x, found %#x", uint64(magicOption), m)
	}
	return be.Uint32(b[8:]), be.Uint32(b[12:]), nil
}

// parseInfo parses the data of optInfo and optGo: the name of an export, and what the client wants to
// know.
func parseInfo(b []byte) (name string, infos []uint16, err error) {
	if len(b) < 6 {
		return "", nil, fmt.Errorf("NBD option: data: expected at least 6 bytes, found %d", len(b))
	}
	n := uint64(be.Uint32(b))
	if n > maxName || n > uint64(len(b)-6) {
		return "", nil, fmt.Errorf("NBD option: name: expected at most %d bytes, found %d", min(maxName, len(b)-6), n)
	}
	name, b = string(b[4:4+n]), b[4+n:]
	count := int(be.Uint16(b))
	if b = b[2:]; len(b) != 2*count {
		return "", nil, fmt.Errorf("NBD option: information requests: expected %d bytes, found %d", 2*count, len(b))
	}
	for ; len(b) > 0; b = b[2:] {
		infos = append(infos, be.Uint16(b))
	}
	return name, infos, nil
}

// appendSimple appends a simple reply, which the data of a read follows.
func appendSimple(b []byte, cookie uint64, code uint32) []byte {
	b = be.AppendUint32(b, magicSimple)
	b = be.AppendUint32(b, code)
	return be.AppendUint64(b, cookie)
}

// appendChunk appends the header of the only chunk of a structured reply, which length bytes follow.
func appendChunk(b []byte, cookie uint64, kind uint16, length int) []byte {
	b = be.AppendUint32(b, magicStructure)
	b = be.AppendUint16(b, chunkDone)
	b = be.AppendUint16(b, kind)
	b = be.AppendUint64(b, cookie)
	return be.AppendUint32(b, uint32(length))
}
