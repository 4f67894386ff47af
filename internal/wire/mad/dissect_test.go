package mad_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"softrdma/internal/testenv"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/perf"
	"softrdma/internal/wire/mad/rmpp"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// capture returns a capture file with an unreliable datagram for each management
// datagram, in ERF records.
func capture(mads [][mad.Len]byte, qpns []uint32) []byte {
	le, be := binary.LittleEndian, binary.BigEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = append(le.AppendUint32(b, 2|4<<16), make([]byte, 8)...)
	b = le.AppendUint32(le.AppendUint32(b, 1<<16), 197)
	for i, m := range mads {
		p := []byte{0xf0, 2, 0, 1, 0, 0, 0, 2} // LRH of lane 15
		if qpns[i] != 0 {
			p[0] = 0
		}
		p = append(p, 0x64, 0, 0xff, 0xff)
		p = be.AppendUint32(be.AppendUint32(p, qpns[i]), 0)
		p = be.AppendUint32(be.AppendUint32(p, 0x80010000), qpns[i])
		p = append(append(p, m[:]...), make([]byte, 6)...)
		be.PutUint16(p[4:], uint16(len(p)-2)/4)
		n := 16 + len(p)
		b = le.AppendUint32(le.AppendUint32(append(b, make([]byte, 8)...), uint32(n)), uint32(n))
		b = append(append(b, make([]byte, 8)...), 21, 0)
		b = be.AppendUint16(be.AppendUint16(be.AppendUint16(b, uint16(n)), 0), uint16(len(p)))
		b = append(b, p...)
	}
	return b
}

// fill gives each byte of a buffer a value.
func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// An expectation is a datagram with what tshark is to find in it.
type expectation struct {
	name   string
	m      [mad.Len]byte
	qpn    uint32
	fields map[string]any
}

// TestDatagramsAsTsharkReadsThem fills attributes with random values, and
// compares what this package reads with what tshark does.
func TestDatagramsAsTsharkReadsThem(t *testing.T) {
	testenv.Programs(t, "tshark")
	expectations := append(append(managementExpectations(), administrationExpectations()...), performanceExpectations()...)
	var mads [][mad.Len]byte
	var qpns []uint32
	args := []string{"-T", "fields", "-E", "separator=|", "-E", "occurrence=f"}
	columns := map[string]int{}
	for _, e := range expectations {
		mads, qpns = append(mads, e.m), append(qpns, e.qpn)
		for f := range e.fields {
			if _, ok := columns[f]; !ok {
				columns[f] = len(columns)
				args = append(args, "-e", "infiniband."+f)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "mads.pcap")
	if err := os.WriteFile(file, capture(mads, qpns), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tshark", append([]string{"-r", file}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != len(expectations) {
		t.Fatalf("tshark found %d packets of %d", len(lines), len(expectations))
	}
	for i, e := range expectations {
		values := strings.Split(lines[i], "|")
		for f, want := range e.fields {
			if found := values[columns[f]]; !equal(found, want) {
				t.Errorf("%s: %s is %v, tshark found %q", e.name, f, show(want), found)
			}
		}
	}
}

// equal compares a value with tshark's text for it.
func equal(text string, want any) bool {
	if w, ok := want.(bool); ok {
		n, err := strconv.ParseUint(text, 0, 8)
		return err == nil && n != 0 == w
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(text, ":", ""), 0, 64)
	if err != nil { // bytes
		n, err = strconv.ParseUint(strings.ReplaceAll(text, ":", ""), 16, 64)
	}
	return err == nil && fmt.Sprint(n) == fmt.Sprintf("%d", want)
}

func show(v any) string { return fmt.Sprintf("%#x", v) }

func managementExpectations() (all []expectation) {
	packet := func(name string, seed uint64, id mad.AttributeID, p smp.Packet) *expectation {
		p.Attribute, p.Method = id, mad.MethodGetResponse
		fill(p.Data[:], seed)
		e := expectation{name: name, fields: map[string]any{"mad.attributeid": uint16(id), "mad.transactionid": p.TID}}
		p.Put(&e.m)
		all = append(all, e)
		return &all[len(all)-1]
	}
	data := func(e *expectation) *[smp.DataLen]byte { return (*[smp.DataLen]byte)(e.m[64:]) }

	d := smp.NewDirected(mad.MethodGet, 0, 0, 0x1122334455667788, 0x99, []uint8{1, 2, 3})
	d.Returning, d.Status, d.HopPointer, d.DrSLID, d.DrDLID = true, 0x1c, 2, 0x1234, 0x5678
	e := packet("directed NodeInfo", 1, smp.AttrNodeInfo, d)
	var n smp.NodeInfo
	n.Parse(data(e))
	for f, v := range map[string]any{
		"smpdirected.smpstatus":  0x8000 | d.Status, // with the direction
		"smpdirected.hoppointer": d.HopPointer, "smpdirected.hopcount": d.HopCount,
		"smpdirected.drslid": d.DrSLID, "smpdirected.drdlid": d.DrDLID, "smplid.mkey": d.MKey,
		"nodeinfo.baseversion": n.BaseVersion, "nodeinfo.classversion": n.ClassVersion, "nodeinfo.nodetype": uint8(n.Type), "nodeinfo.numports": n.NumPorts,
		"nodeinfo.systemimageguid": n.SystemImageGUID, "nodeinfo.nodeguid": n.NodeGUID, "nodeinfo.portguid": n.PortGUID,
		"nodeinfo.partitioncap": n.PartitionCap, "nodeinfo.deviceid": n.DeviceID, "nodeinfo.revision": n.Revision,
		"nodeinfo.localportnum": n.LocalPort, "nodeinfo.vendorid": n.VendorID,
	} {
		e.fields[f] = v
	}

	r := smp.NewRouted(mad.MethodGet, 0, 0, 5, 0x123456789)
	e = packet("SwitchInfo", 2, smp.AttrSwitchInfo, r)
	var s smp.SwitchInfo
	s.Parse(data(e))
	for f, v := range map[string]any{
		"smplid.mkey": r.MKey, "switchinfo.linearfdbcap": s.LinearCap, "switchinfo.randomfdbcap": s.RandomCap,
		"switchinfo.multicastfdbcap": s.MulticastCap, "switchinfo.linearfdbtop": s.LinearTop, "switchinfo.defaultport": s.DefaultPort,
		"switchinfo.lifetimevalue": s.LifeTime, "switchinfo.portstatechange": s.PortStateChange, "switchinfo.lidsperport": s.LIDsPerPort,
		"switchinfo.partitionenforcementcap": s.PartitionCap, "switchinfo.inboundenforcementcap": s.EnforceInbound,
		"switchinfo.outboundenforcementcap": s.EnforceOutbound, "switchinfo.filterrawinboundcap": s.FilterRawInbound,
		"switchinfo.filterrawoutboundcap": s.FilterRawOutbound, "switchinfo.enhancedportzero": s.EnhancedPort0,
	} {
		e.fields[f] = v
	}

	e = packet("PortInfo", 3, smp.AttrPortInfo, r)
	var p smp.PortInfo
	p.Parse(data(e))
	for f, v := range map[string]any{
		"portinfo.m_key": p.MKey, "portinfo.lid": p.LID, "portinfo.mastersmlid": p.MasterSMLID, "portinfo.capabilitymask": uint32(p.CapabilityMask),
		"portinfo.diagcode": p.DiagCode, "portinfo.m_keyleaseperiod": p.MKeyLeasePeriod, "portinfo.localportnum": p.LocalPort,
		"portinfo.linkwidthenabled": uint8(p.WidthEnabled), "portinfo.linkwidthsupported": uint8(p.WidthSupported),
		"portinfo.linkwidthactive": uint8(p.WidthActive), "portinfo.linkspeedsupported": uint8(p.SpeedSupported), "portinfo.portstate": uint8(p.State),
		"portinfo.portphysicalstate": uint8(p.Physical), "portinfo.linkdowndefaultstate": uint8(p.DownDefault), "portinfo.m_keyprotectbits": p.MKeyProtect,
		"portinfo.lmc": p.LMC, "portinfo.linkspeedactive": uint8(p.SpeedActive), "portinfo.linkspeedenabled": uint8(p.SpeedEnabled),
		"portinfo.neighbormtu": uint8(p.NeighborMTU), "portinfo.mastersmsl": p.MasterSMSL, "portinfo.vlcap": uint8(p.VLCap), "portinfo.inittype": p.InitType,
		"portinfo.vlhighlimit": p.VLHighLimit, "portinfo.vlarbitrationhighcap": p.VLArbitrationHighCap, "portinfo.vlarbitrationlowcap": p.VLArbitrationLowCap,
		"portinfo.inittypereply": p.InitTypeReply, "portinfo.mtucap": uint8(p.MTUCap), "portinfo.vlstallcount": p.VLStallCount, "portinfo.hoqlife": p.HOQLife,
		"portinfo.operationalvls": uint8(p.OperationalVLs), "portinfo.partitionenforcementinbound": p.EnforceInbound,
		"portinfo.partitionenforcementoutbound": p.EnforceOutbound, "portinfo.filterrawinbound": p.FilterRawInbound,
		"portinfo.filterrawoutbound": p.FilterRawOutbound, "portinfo.m_keyviolations": p.MKeyViolations, "portinfo.p_keyviolations": p.PKeyViolations,
		"portinfo.q_keyviolations": p.QKeyViolations, "portinfo.guidcap": p.GUIDCap, "portinfo.clientreregister": p.ClientReregister,
		"portinfo.subnettimeout": p.SubnetTimeout, "portinfo.resptimevalue": p.RespTimeValue, "portinfo.localphyerrors": p.LocalPhyErrors,
		"portinfo.overrunerrors": p.OverrunErrors, "portinfo.maxcredithint": p.MaxCreditHint, "portinfo.linkroundtriplatency": p.LinkRoundTripLatency,
	} {
		e.fields[f] = v
	}

	e = packet("SMInfo", 4, smp.AttrSMInfo, r)
	var m smp.SMInfo
	m.Parse(data(e))
	for f, v := range map[string]any{"sminfo.guid": m.GUID, "sminfo.sm_key": m.SMKey, "sminfo.actcount": m.ActCount, "sminfo.priority": m.Priority,
		"sminfo.smstate": uint8(m.State)} {
		e.fields[f] = v
	}

	e = packet("Notice", 5, mad.AttrNotice, r)
	var notice mad.Notice
	notice.ParseManagement(data(e))
	for f, v := range map[string]any{"notice.isgeneric": notice.Generic, "notice.type": notice.Type, "notice.producertypevendorid": notice.Producer,
		"notice.trapnumberdeviceid": notice.Number, "notice.issuerlid": notice.IssuerLID, "notice.noticetoggle": notice.Toggle, "notice.noticecount": notice.Count} {
		e.fields[f] = v
	}
	e = packet("VLArbitrationTable", 6, smp.AttrVLArbitration, r)
	var w smp.VLArbitration
	w.Parse(data(e))
	e.fields["vlarbitrationtable.vl"], e.fields["vlarbitrationtable.weight"] = w[0].VL, w[0].Weight
	e = packet("LinearForwardingTable", 7, smp.AttrLinearForwarding, r)
	e.fields["linearforwardingtable.port"] = data(e)[0]
	e = packet("MulticastForwardingTable", 8, smp.AttrMulticastForwarding, r)
	var masks smp.MulticastForwarding
	masks.Parse(data(e))
	e.fields["multicastforwardingtable.portmask"] = masks[0]
	return all
}

func administrationExpectations() (all []expectation) {
	record := func(name string, seed uint64, id mad.AttributeID, v sa.Record) *expectation {
		h := sa.Header{MAD: mad.Header{BaseVersion: 1, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: mad.MethodGetResponse,
			TID: seed << 40, Attribute: id}, SMKey: 0x1234567, Offset: uint16(seed), ComponentMask: 0x55aa << seed}
		e := expectation{name: name, qpn: 1, fields: map[string]any{"mad.attributeid": uint16(id), "sa.smkey": h.SMKey,
			"sa.attributeoffset": h.Offset, "sa.componentmask": h.ComponentMask}}
		h.RMPP = rmpp.Header{Version: rmpp.Version, Type: rmpp.Data, RespTime: uint8(seed), Flags: rmpp.Active | rmpp.First, Segment: 1, Second: 220}
		// tshark takes 4 bits each for the response time of 5 bits and the flags of 3.
		for f, v := range map[string]any{"rmpp.rmppversion": h.RMPP.Version, "rmpp.rmpptype": uint8(h.RMPP.Type), "rmpp.rresptime": h.RMPP.RespTime >> 1,
			"rmpp.rmppflags": h.RMPP.RespTime&1<<3 | h.RMPP.Flags, "rmpp.rmppstatus": uint8(h.RMPP.Status), "rmpp.segmentnumber": h.RMPP.Segment, "rmpp.payloadlength": h.RMPP.Second} {
			e.fields[f] = v
		}
		h.Put(&e.m)
		fill(sa.Data(&e.m)[:], seed)
		v.Parse(sa.Data(&e.m))
		all = append(all, e)
		return &all[len(all)-1]
	}
	add := func(e *expectation, fields map[string]any) {
		for f, v := range fields {
			e.fields[f] = v
		}
	}
	var node sa.NodeRecord
	add(record("NodeRecord", 11, sa.AttrNodeRecord, &node), map[string]any{"sa.lid": node.LID, "nodeinfo.nodeguid": node.Info.NodeGUID, "nodeinfo.vendorid": node.Info.VendorID})
	var port sa.PortInfoRecord
	add(record("PortInfoRecord", 12, sa.AttrPortInfoRecord, &port), map[string]any{"sa.endportlid": port.LID, "sa.portnum": port.Port,
		"portinfo.m_key": port.Info.MKey, "portinfo.linkroundtriplatency": port.Info.LinkRoundTripLatency})
	var link sa.LinkRecord
	add(record("LinkRecord", 13, sa.AttrLinkRecord, &link), map[string]any{"linkrecord.fromlid": link.FromLID, "linkrecord.fromport": link.FromPort,
		"linkrecord.toport": link.ToPort, "linkrecord.tolid": link.ToLID})
	var path sa.PathRecord
	add(record("PathRecord", 14, sa.AttrPathRecord, &path), map[string]any{"pathrecord.dlid": path.DLID, "pathrecord.slid": path.SLID,
		"pathrecord.rawtraffic": path.RawTraffic, "pathrecord.flowlabel": path.FlowLabel, "pathrecord.hoplimit": path.HopLimit, "pathrecord.tclass": path.TrafficClass,
		"pathrecord.reversible": path.Reversible, "pathrecord.numbpath": path.NumPaths, "pathrecord.p_key": path.PKey, "pathrecord.sl": path.SL,
		"pathrecord.mtuselector": uint8(path.MTU.Selector), "pathrecord.mtu": path.MTU.Value, "pathrecord.rateselector": uint8(path.Rate.Selector),
		"pathrecord.rate": path.Rate.Value, "pathrecord.packetlifetimeselector": uint8(path.LifeTime.Selector),
		"pathrecord.packetlifetime": path.LifeTime.Value, "pathrecord.preference": path.Preference})
	var member sa.MCMemberRecord
	add(record("MCMemberRecord", 15, sa.AttrMCMemberRecord, &member), map[string]any{"mcmemberrecord.q_key": member.QKey, "mcmemberrecord.mlid": member.MLID,
		"mcmemberrecord.mtuselector": uint8(member.MTU.Selector), "mcmemberrecord.mtu": member.MTU.Value, "mcmemberrecord.tclass": member.TrafficClass,
		"mcmemberrecord.p_key": member.PKey, "mcmemberrecord.rate": member.Rate.Value, "mcmemberrecord.packetlifetime": member.LifeTime.Value,
		"mcmemberrecord.sl": member.SL, "mcmemberrecord.flowlabel": member.FlowLabel, "mcmemberrecord.hoplimit": member.HopLimit,
		"mcmemberrecord.scope": member.Scope, "mcmemberrecord.joinstate": member.JoinState, "mcmemberrecord.proxyjoin": member.ProxyJoin})
	var trace sa.TraceRecord
	add(record("TraceRecord", 16, sa.AttrTraceRecord, &trace), map[string]any{"tracerecord.gidprefix": trace.GIDPrefix, "tracerecord.idgeneration": trace.IDGeneration,
		"tracerecord.nodetype": trace.NodeType, "tracerecord.nodeid": trace.NodeID, "tracerecord.chassisid": trace.ChassisID,
		"tracerecord.entryportid": trace.EntryPortID, "tracerecord.exitportid": trace.ExitPortID, "tracerecord.entryport": trace.EntryPort,
		"tracerecord.exitport": trace.ExitPort})
	var multi sa.MultiPathRecord
	add(record("MultiPathRecord", 17, sa.AttrMultiPathRecord, &multi), map[string]any{"multipathrecord.flowlabel": multi.FlowLabel, "multipathrecord.hoplimit": multi.HopLimit,
		"multipathrecord.numbpath": multi.NumPaths, "multipathrecord.p_key": multi.PKey, "multipathrecord.sl": multi.SL, "multipathrecord.mtu": multi.MTU.Value,
		"multipathrecord.rate": multi.Rate.Value, "multipathrecord.sgidcount": multi.Sources, "multipathrecord.dgidcount": multi.Destinations})
	var inform sa.InformInfoRecord
	add(record("InformInfoRecord", 18, sa.AttrInformInfoRecord, &inform), map[string]any{"informinforecord.enum": inform.Enum,
		"informinfo.lidrangebegin": inform.Info.LIDBegin, "informinfo.lidrangeend": inform.Info.LIDEnd, "informinfo.type": inform.Info.Type,
		"informinfo.trapnumberdeviceid": inform.Info.Number, "informinfo.qpn": inform.Info.QPN, "informinfo.resptimevalue": inform.Info.RespTime,
		"informinfo.producertypevendorid": inform.Info.Producer})
	return all
}

func performanceExpectations() (all []expectation) {
	for i, a := range []struct {
		id   mad.AttributeID
		name string
		skip map[string]bool // tshark does not know them
	}{
		{perf.AttrPortCounters, "portcounters", map[string]bool{"PortXmitWait": true}},
		{perf.AttrPortCountersExtended, "portcounters_ext", nil},
	} {
		h := mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: mad.MethodGetResponse, Attribute: a.id}
		e := expectation{name: a.name, qpn: 1, fields: map[string]any{}}
		h.Put(&e.m)
		data := (*[perf.DataLen]byte)(e.m[perf.DataAt:])
		fill(data[:], uint64(20+i))
		e.fields[a.name+".portselect"] = perf.PortSelect(data)
		for _, c := range perf.Counters(a.id) {
			if !a.skip[c.Name] {
				e.fields[a.name+"."+strings.ToLower(strings.Replace(c.Name, "ConstraintErrors", "ConstrainTErrors", 1))] = c.Get(data)
			}
		}
		all = append(all, e)
	}
	return all
}
