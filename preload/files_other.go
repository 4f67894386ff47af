//go:build !linux || !(amd64 || arm64)

package preload

import "embed"

// files is empty: no libraries are built for this system.
var files embed.FS
