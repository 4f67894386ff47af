package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// A ByteSize is a number of bytes as a flag: 4096, 0x1000, 64K, 1MiB or 2G. K, M and G
// are powers of 1024.
type ByteSize int64

var sizeUnits = map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}

// Set parses the size. It implements pflag.Value.
func (s *ByteSize) Set(v string) error {
	v = strings.TrimSuffix(v, "iB")
	digits, unit := v, int64(1)
	if v != "" && !strings.HasPrefix(v, "0x") {
		if u, ok := sizeUnits[v[len(v)-1]&^0x20]; ok {
			digits, unit = v[:len(v)-1], u
		}
	}
	n, err := strconv.ParseInt(digits, 0, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return fmt.Errorf("expected a size such as 4096, 64K or 1M, found %q", v)
	}
	*s = ByteSize(n * unit)
	return nil
}

// String returns the size in bytes.
func (s *ByteSize) String() string { return strconv.FormatInt(int64(*s), 10) }

// Type returns the placeholder of the value in help texts.
func (s *ByteSize) Type() string { return "SIZE" }
