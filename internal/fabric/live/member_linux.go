package live

import (
	"encoding/binary"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/management/agent"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// maxMembers is the number of memberships of a program that its fabric remembers.
const maxMembers = 4096

// setMember notes that a membership of a program begins or ends.
func (a *attachment) setMember(m attach.Membership, on bool) {
	switch {
	case !on:
		delete(a.members, m)
	case len(a.members) >= maxMembers:
		a.fabric.drop(a.at, reason.Detail{Reason: reason.FabricMessage, Expected: maxMembers, Found: maxMembers + 1})
	default:
		if a.members == nil {
			a.members = make(map[attach.Membership]struct{})
		}
		a.members[m] = struct{}{}
	}
}

// leaveGroups ends the memberships that a program still had when it ended. It does not wait for
// the administrator's answers. An administrator that misses a request forgets the port when it has gone.
func (f *Fabric) leaveGroups(a *attachment) {
	g := f.subnet.Agent(a.at.Node)
	info := g.PortInfo(a.at.Port)
	if len(a.members) == 0 || info.State != smp.PortActive || info.MasterSMLID == 0 {
		return
	}
	var port mad.GID
	binary.BigEndian.PutUint64(port[:], info.GIDPrefix)
	binary.BigEndian.PutUint64(port[8:], g.GUIDs(a.at.Port)[0])
	for m := range a.members {
		f.leaves++
		h := sa.Header{
			MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion,
				Method: mad.MethodDelete, TID: f.leaves, Attribute: sa.AttrMCMemberRecord},
			ComponentMask: sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState,
		}
		out := agent.Departure{Port: a.at.Port, SLID: info.LID, DLID: info.MasterSMLID, SL: info.MasterSMSL,
			QPN: mad.GSIQPN, SourceQPN: mad.GSIQPN, QKey: mad.GSIQKey, PKey: smp.DefaultPKey}
		h.Put(&out.MAD)
		q := sa.MCMemberRecord{MGID: m.MGID, PortGID: port, JoinState: m.State}
		q.Put(sa.Data(&out.MAD))
		f.subnet.SendMAD(f.now(), a.at.Node, &out)
	}
	a.members = nil
}
