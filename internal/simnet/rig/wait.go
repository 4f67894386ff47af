package rig

import (
	"context"
	"time"
)

// waitLimit bounds Wait in virtual time.
const waitLimit = time.Minute

// done is a context that is over, so that waiting with it only looks.
var done = func() context.Context {
	c, cancel := context.WithCancel(context.Background())
	cancel()
	return c
}()
