package congestion

import "fmt"

// A Recovery is how a reliable connection retransmits lost packets.
type Recovery uint8

// The kinds of recovery. A connection repeats selectively if both of its ends do.
const (
	DefaultRecovery Recovery = iota // the device's choice; the choice of a device is SelectiveRepeat
	SelectiveRepeat                 // retransmit only what was lost
	GoBackN                         // retransmit everything from the lost packet on (IBTA 9.7.5.1)
	recoveries
)

var recoveryNames = [recoveries]string{"default", "selective-repeat", "go-back-n"}

// String returns the name that ParseRecovery takes.
func (r Recovery) String() string {
	if r < recoveries {
		return recoveryNames[r]
	}
	return fmt.Sprintf("recovery %d", uint8(r))
}

// ParseRecovery returns the recovery with a name. The empty name is
// DefaultRecovery. The error lists the names.
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
