//go:build !linux

package measure

import "time"

func schedYield() { time.Sleep(time.Microsecond) }
