package top

import "softrdma/internal/sampler"

// What the sampler reports, as rows of tables.
type (
	sample       = sampler.Sample
	target       = sampler.Target
	report       sampler.Report
	deviceReport sampler.DeviceReport
	qpReport     sampler.QPReport
)

// compare reports what a sample shows. before may be nil.
func compare(before, now *sample) *report { return (*report)(sampler.Compare(before, now)) }

// owner returns the device of a queue pair.
func (r *qpReport) owner() *deviceReport { return (*deviceReport)(r.Of) }
