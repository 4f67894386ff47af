package preload

import "embed"

// The folder is always there; the libraries are where a C compiler was.
//
//go:embed lib/linux-arm64
var files embed.FS
