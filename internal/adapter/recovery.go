package adapter

import "fmt"

// A Recovery is how reliable connections make up for lost packets.
type Recovery uint8

// The ways. A connection repeats selectively where both of its ends do.
const (
	DefaultRecovery Recovery = iota // the device's; of a device SelectiveRepeat
	SelectiveRepeat                 // what was lost is sent again
	GoBackN                         // everything from a lost packet on is sent again (IBTA 9.7.5.1)
	recoveries
)

var recoveryNames = [recoveries]string{"default", "selective-repeat", "go-back-n"}

// String gives the name that ParseRecovery takes.
func (r Recovery) String() string {
	if r < recoveries {
		return recoveryNames[r]
	}
	return fmt.Sprintf("recovery %d", uint8(r))
}

// ParseRecovery gives the way of a name; the empty name is DefaultRecovery.
func ParseRecovery(name string) (Recovery, error) {
	if name == "" {
		return DefaultRecovery, nil
	}
	for r := SelectiveRepeat; r < recoveries; r++ {
		if name == recoveryNames[r] {
			return r, nil
		}
	}
	return DefaultRecovery, fmt.Errorf("recovery: expected %s or %s, found %q", SelectiveRepeat, GoBackN, name)
}
