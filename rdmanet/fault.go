package rdmanet

import "softrdma/rdmacm"

// errDisconnected is why a connection ended that its peer, or this side, has
// ended.
var errDisconnected = rdmacm.ErrDisconnected
