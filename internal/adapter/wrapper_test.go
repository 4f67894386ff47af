package adapter

import "softrdma/faults"

// Inject lets rules of faults apply to a device that is open.
func (d *Device) Inject(x *faults.Injector) { d.inject(x) }
