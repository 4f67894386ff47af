package controller

import (
	"slices"
	"strconv"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
)

// logPage fills in a part of a log page. What lies behind the page's end is zeros.
func (q *Queue) logPage(c *Command, data []byte) *Refusal {
	page, specific, offset, _, retain := logpage.Fields(&c.Command)
	whole, r := q.page(page, specific)
	if r != nil {
		return r
	}
	if offset%4 != 0 || offset > uint64(len(whole)) {
		return refuse(FieldValue, uint64(len(whole)), offset)
	}
	clear(data[copy(data, whole[offset:]):])
	if !retain {
		q.controller.pageRead(page)
	}
	return nil
}

// pageRead notes that the host has read a log page: its events can be raised again.
func (c *Controller) pageRead(page logpage.Page) {
	switch page {
	case logpage.Discovery:
		c.masked &^= logpage.AskDiscoveryChanged
	case logpage.ChangedNamespaces:
		c.masked &^= logpage.AskNamespaceChanged
		c.changed = nil
	case logpage.ANA:
		c.masked &^= logpage.AskANAChanged
	case logpage.Reservations:
		c.noticeRead()
	}
}

// page returns a whole log page.
func (q *Queue) page(page logpage.Page, specific uint8) ([]byte, *Refusal) {
	m := q.controller
	switch {
	case page == logpage.Discovery && m.sub.discovery:
		return q.discoveryLog(), nil
	case m.sub.discovery:
	case page == logpage.Error:
		return m.errorLog(), nil
	case page == logpage.Health:
		t := &m.sub.traffic
		return logpage.AppendHealth(nil, t.BytesRead, t.BytesWritten, t.Reads, t.Writes), nil
	case page == logpage.Firmware:
		return logpage.AppendFirmware(nil, firmware), nil
	case page == logpage.ChangedNamespaces:
		return m.changedLog(), nil
	case page == logpage.Effects:
		return logpage.AppendEffects(nil, adminCommands, blockCommands, writeCommands), nil
	case page == logpage.Reservations:
		return m.notices.page(), nil
	case page == logpage.ANA:
		b := logpage.AppendANA(nil, m.sub.changes, m.sub.groups, specific&1 != 0)
		// Hosts read as much as the largest numbers of groups and namespaces take.
		return append(b, make([]byte, max(0, logpage.MaxANALen(maxGroups, maxNamespace)-len(b)))...), nil
	}
	return nil, refuse(LogPageUnknown, 0, uint64(page))
}

// errorLog returns the error log, the newest entry first.
func (m *Controller) errorLog() (b []byte) {
	for _, e := range slices.Backward(m.errors) {
		b = e.Append(b)
	}
	return append(b, make([]byte, errorEntries*logpage.ErrorEntryLen-len(b))...)
}

// changedLog returns the list of changed namespaces, which reading empties.
func (m *Controller) changedLog() []byte {
	ids := slices.Sorted(slices.Values(m.changed))
	if len(ids) > maxChanged {
		ids = []uint32{capsule.AllNamespaces}
	}
	return identify.AppendNamespaces(nil, ids, 0)
}

// discoveryLog returns the discovery log page: this service, and the subsystems that the host may use.
func (q *Queue) discoveryLog() []byte {
	at := q.origin.Address
	e := logpage.DiscoveryEntry{
		Transport: logpage.TransportRDMA, Family: logpage.FamilyIPv4, Requirements: logpage.NoFlowControlNeeded,
		Controller: fabrics.AnyController, AdminQueue: AdminQueueSize, Service: strconv.Itoa(int(at.Port())), Address: at.Addr().Unmap().String(),
		RDMAService: logpage.ServiceConnected, Provider: q.origin.Provider, Management: logpage.ManagementRDMA,
	}
	if !at.Addr().Unmap().Is4() {
		e.Family = logpage.FamilyIPv6
	}
	add := func(b []byte, nqn string, t logpage.SubsystemType) []byte {
		e.Subsystem, e.Type = nqn, t
		return e.Append(b)
	}
	entries := add(nil, logpage.DiscoveryNQN, logpage.SubsystemCurrent)
	for _, sub := range q.subs.list {
		if sub.allows(q.controller.host) {
			entries = add(entries, sub.NQN, logpage.SubsystemNVM)
		}
	}
	head := logpage.DiscoveryHead{Generation: q.subs.generation, Entries: uint64(len(entries) / logpage.DiscoveryEntryLen)}
	return append(head.Append(nil), entries...)
}
