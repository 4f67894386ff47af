package ninep

import (
	"os"

	"github.com/hugelgupf/p9/p9"
)

// plainAttr returns the attributes that every system has.
func plainAttr(info os.FileInfo) p9.Attr {
	t := info.ModTime()
	seconds, rest := uint64(t.Unix()), uint64(t.Nanosecond())
	return p9.Attr{
		Mode: p9.ModeFromOS(info.Mode()), NLink: 1, Size: uint64(info.Size()), BlockSize: 4096, Blocks: uint64(info.Size()+511) / 512,
		ATimeSeconds: seconds, ATimeNanoSeconds: rest, MTimeSeconds: seconds, MTimeNanoSeconds: rest, CTimeSeconds: seconds, CTimeNanoSeconds: rest,
	}
}
