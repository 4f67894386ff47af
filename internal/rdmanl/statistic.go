package rdmanl

import "syscall"

// statistics returns the counters of a port. Counters that are bound to queue pairs or regions
// exist in hardware only: a dump of them is empty, as that of Linux's rxe.
func (r *request) statistics() ([][]byte, error) {
	index, d, err := r.device()
	if err != nil {
		return nil, err
	}
	of, bound, err := r.attrs.Uint32(attrStatRes)
	switch {
	case err != nil:
		return nil, err
	case bound && of != attrQP && of != attrMR:
		return nil, syscall.EINVAL
	case bound && !r.dump:
		return nil, syscall.EOPNOTSUPP
	case bound:
		return nil, nil
	case r.dump:
		return nil, syscall.EINVAL
	}
	list, err := r.portStatistics(index)
	if err != nil {
		return nil, err
	}
	m := r.message()
	m.handle(index, &d)
	m.u32(AttrPortIndex, 1)
	m.nested(attrHWCounters, func() {
		for _, x := range list {
			m.nested(attrHWCounterEntry, func() {
				m.text(attrHWCounterName, x.Name)
				m.u64(attrHWCounterValue, x.Value)
			})
		}
	})
	return [][]byte{m.bytes()}, nil
}

// statisticNames returns which counters a port has. None can be switched off.
func (r *request) statisticNames() ([][]byte, error) {
	index, d, err := r.device()
	if err != nil {
		return nil, err
	}
	list, err := r.portStatistics(index)
	if err != nil {
		return nil, err
	}
	m := r.message()
	m.handle(index, &d)
	m.u32(AttrPortIndex, 1)
	m.nested(attrHWCounters, func() {
		for i, x := range list {
			m.nested(attrHWCounterEntry, func() {
				m.text(attrHWCounterName, x.Name)
				m.u32(attrHWCounterIndex, uint32(i))
				m.u8(attrHWCounterDynamic, 0)
			})
		}
	})
	return [][]byte{m.bytes()}, nil
}

// portStatistics returns the counters of the port that a request names.
func (r *request) portStatistics(index int) ([]Statistic, error) {
	port, ok, err := r.attrs.Uint32(AttrPortIndex)
	if err != nil || !ok || port != 1 {
		return nil, syscall.EINVAL
	}
	list := r.src.Statistics(index)
	if list == nil {
		return nil, syscall.EINVAL // as of a driver without counters
	}
	return list, nil
}
