//go:build interop && linux

package fabrics

import (
	"regexp"
	"strings"
)

// A tool is a program with its arguments, and what it has to print. {node-2} is the LID
// of a node, OUT a directory.
type tool struct {
	args  string
	words []string       // regular expressions, of which each matches
	count map[string]int // how often regular expressions match
}

// run runs the tool at a node.
func (x *tool) run(r *rig, node string, lids map[string]string, out string) {
	r.t.Helper()
	fill := func(text string) string {
		return regexp.MustCompile(`\{[^}]+\}`).ReplaceAllStringFunc(strings.Replace(text, "OUT", out, 1), func(name string) string {
			lid, ok := lids[strings.Trim(name, "{}")]
			if !ok {
				r.t.Fatalf("no LID of %s", name)
			}
			return lid
		})
	}
	args := strings.Fields(fill(x.args))
	var said string
	r.eventually(x.args, func() bool {
		p := r.at(node, args...)
		<-p.done
		said = p.said.String()
		// ibdiagnet gives up after three answers that took longer than a tenth of a second, as
		// they do on a busy machine.
		if args[0] == "ibdiagnet" && strings.Contains(said, "Local link is bad") || args[0] == "ibdiagpath" && !strings.Contains(said, "Path shared PKeys") {
			return false
		}
		if p.err != nil {
			r.t.Fatalf("%s: %v:\n%s", x.args, p.err, tail(said))
		}
		return true
	})
	for _, w := range x.words {
		if !regexp.MustCompile(fill(w)).MatchString(said) {
			r.t.Errorf("no %q in:\n%s", w, tail(said))
		}
	}
	for w, n := range x.count {
		if got := len(regexp.MustCompile(w).FindAllString(said, -1)); got != n {
			r.t.Errorf("%q %d times, expected %d, in:\n%s", w, got, n, tail(said))
		}
	}
}

// tools are programs of infiniband-diags, ibutils and opensm, for the fat tree with a program
// "ibping -S" at node-2 and "ibsysstat -S" at node-3.
var tools = []tool{
	// The port of the program, and its neighbors.
	{"ibstat", []string{"State: Active", "Link layer: InfiniBand", "Rate: 100"}, nil},
	{"ibstat -p", nil, map[string]int{"(?m)^0x": 1}},
	{"ibstatus", []string{`state:\s+4: ACTIVE`, `phys state:\s+5: LinkUp`, `rate:\s+100 Gb/sec \(4X EDR\)`, `link_layer:\s+InfiniBand`}, nil},
	{"ibaddr", []string{`GID fe80::\S+ LID start 0x\w+ end 0x\w+`}, nil},
	{"ibaddr -L {node-2}", []string{"LID start {node-2} end {node-2}"}, nil},

	// The fabric by directed routes.
	{"ibnetdiscover", nil, map[string]int{`(?m)^Switch\t`: 20, `(?m)^Ca\t`: 16, "4xEDR": 96}},
	{"ibnetdiscover -p", nil, map[string]int{`(?m)^CA .* 4x EDR`: 16, `(?m)^SW .* 4x EDR`: 80}},
	{"iblinkinfo -l", nil, map[string]int{`4X +25.78125 Gbps Active/  LinkUp`: 96, "Could be": 0}},
	{"iblinkinfo -p -l", nil, map[string]int{`Active/  LinkUp`: 96, `HOQ:\d+`: 96}},
	{"ibhosts", nil, map[string]int{`"node-\d+"`: 16}},
	{"ibswitches", nil, map[string]int{`(?m)^Switch\t`: 20}},
	{"ibnodes", nil, map[string]int{`(?m)^(Ca|Switch)\t`: 36}},
	{"ibidsverify", nil, map[string]int{"(?i)duplicate": 0}},
	{"ibqueryerrors --threshold-file /dev/null", []string{"36 nodes checked, 0 bad nodes"}, nil},
	{"ibqueryerrors --details --counters", nil, map[string]int{"PortXmitData": 96}},
	{"ibdiagnet -o OUT", []string{"Discovering \\.\\.\\. 36 nodes \\(20 Switches & 16 CA-s\\)", "No bad Guids", "Link State Active Check +0 +0", "Performance Counters Report +0 +0"}, nil},

	{"ibdiagpath -d 1,1,4,3 -pm -o OUT", []string{"To: +lid=0x\\w+ guid=0x\\w+ dev=0 node-2/P1", "No illegal PM counters", "Path shared PKeys: 0xffff"}, nil},

	// Tables of switches.
	{"ibroute {spine-0-0}", []string{"36 valid lids"}, nil},
	{"ibroute -n {spine-0-0} {node-3} {node-3}", []string{"1 valid lids"}, nil},
	{"ibroute -M {spine-0-0}", []string{"valid mlids dumped"}, nil},
	{"ibtracert {node-1} {node-15}", []string{`To ca .* "node-15"`}, map[string]int{`-> switch port`: 5}},
	{"dump_lfts", nil, map[string]int{"36 valid lids dumped": 20}},
	{"dump_mfts", nil, map[string]int{"(?m)^Multicast mlids": 20}},
	{"dump_fts", nil, map[string]int{"36 valid lids dumped": 20}},

	// Attributes of subnet management.
	{"sminfo", []string{"SMINFO_MASTER"}, nil},
	{"smpquery nodeinfo {node-2}", []string{`NodeType:\.*Channel Adapter`, `NumPorts:\.*1\n`}, nil},
	{"smpquery nodedesc {spine-0-0}", []string{"spine-0-0"}, nil},
	{"smpquery -D nodeinfo 0,1", []string{`NodeType:\.*Switch`}, nil},
	{"smpquery -c nodedesc {leaf-0-0} 0,1", []string{"spine|node"}, nil},
	{"smpquery portinfo {node-0} 1", []string{"LinkState:\\.*Active", "LinkWidthSupported:\\.*1X or 4X"}, nil},
	{"smpquery -x portinfo {spine-0-0} 1", []string{"LinkSpeedExtActive:\\.*25.78125 Gbps"}, nil},
	{"smpquery switchinfo {spine-0-0}", []string{"LinearFdbCap:\\.*[1-9]"}, nil},
	{"smpquery pkeys {node-2} 1", []string{"0xffff", `(?m)^ 120:`}, nil},
	{"smpquery sl2vl {spine-0-0} 1", nil, map[string]int{`(?m)^ports: in +\d+`: 5}},
	{"smpquery vlarb {node-2}", []string{"Low priority VL Arbitration Table", "High priority VL Arbitration Table"}, nil},
	{"smpquery guidinfo {node-2}", []string{`0x025dfa00`}, nil},
	{"smpdump {node-2} 17", []string{`(?m)^0101 0101`}, nil},

	// Counters.
	{"perfquery {node-2} 1", []string{`PortXmitData:\.*[1-9]`, `LinkDownedCounter:\.*0`}, nil},
	{"perfquery -x {node-0} 1", []string{`PortXmitData:\.*[1-9]`}, nil},
	{"perfquery -a {spine-0-0}", []string{`PortSelect:\.*255`, `PortRcvPkts:\.*[1-9]`}, nil},
	{"perfquery -l {spine-0-0} 1-3", nil, map[string]int{`PortRcvPkts:\.*[1-9]`: 3}},
	{"perfquery -X {leaf-0-0} 1", []string{`XmtDataSL0:\.*[1-9]`, `XmtDataSL15:\.*0`}, nil},
	{"perfquery -S {leaf-0-0} 1", []string{`RcvDataSL0:\.*[1-9]`}, nil},
	{"perfquery -D {leaf-0-0} 1", []string{`PortInactiveDiscards:`, `PortSwHOQLifetimeLimitDiscards:\.*0`}, nil},
	{"perfquery -E {leaf-0-0} 1", []string{`PortLocalPhysicalErrors:\.*0`, `PortLoopingErrors:\.*0`}, nil},
	{"perfquery --vlxmitcounters {leaf-0-0} 1", []string{`PortVLXmitWait0:\.*\d`}, nil},
	{"perfquery --flowctlcounters {leaf-0-0} 1", []string{`PortXmitFlowPkts:\.*[1-9]`, `PortRcvFlowPkts:\.*[1-9]`}, nil},
	{"perfquery --vlxmitflowctlerrors {leaf-0-0} 1", []string{`PortVLXmitFlowCtlUpdateErrors15:\.*0`}, nil},
	{"perfquery -T {leaf-0-0} 1", []string{`SyncHeaderErrorCounter:\.*0`}, nil},
	{"perfquery --rcvcc {node-0} 1", []string{`PortPktRcvFECN:\.*0`, `PortPktRcvBECN:\.*\d`}, nil},
	{"perfquery --slrcvfecn {node-0} 1", []string{`PortSLRcvFECN15:\.*0`}, nil},
	{"perfquery --slrcvbecn {node-0} 1", []string{`PortSLRcvBECN15:\.*0`}, nil},
	{"perfquery --xmitcc {node-0} 1", []string{`PortXmitTimeCong:\.*0`}, nil},
	{"perfquery --vlxmittimecc {node-0} 1", []string{`PortVLXmitTimeCong14:\.*0`}, nil},
	{"perfquery --oprcvcounters {leaf-0-0} 1", []string{`PortOpRcvPkts:\.*\d+`}, nil},
	{"perfquery --vloppackets {leaf-0-0} 1", []string{`PortVLOpPackets15:\.*\d+`}, nil},
	{"perfquery --vlopdata {leaf-0-0} 1", []string{`PortVLOpData15:\.*\d+`}, nil},
	{"smpquery PIE {leaf-0-0} 1", []string{`FECModeActive:\.*0`}, nil},
	{"perfquery --swportvlcong {leaf-0-0} 1", []string{`SWPortVLCongestion15:\.*0`}, nil},
	{"perfquery -c {leaf-0-0} 1", []string{`CounterWidth:\.*4`, `CounterMask0:\.*0x01`, `SampleStatus:\.*0`}, nil},
	{"perfquery -R {leaf-1-0} 1", nil, nil},
	{"perfquery -x -r {leaf-1-0} 1", []string{`PortRcvData:\.*[1-9]`}, nil},

	// Records of subnet administration.
	{"saquery CPI", []string{"SA ClassPortInfo"}, nil},
	{"saquery NR", nil, map[string]int{"NodeRecord dump": 36}},
	{"saquery NR {node-2}", []string{"node-2"}, map[string]int{"NodeRecord dump": 1}},
	{"saquery -l node-2", []string{`(?m)^\d+$`}, nil},
	{"saquery -O {node-2}", []string{"node-2"}, nil},
	{"saquery -D", nil, map[string]int{"node-": 16}},
	{"saquery -s", nil, map[string]int{"PortInfoRecord dump": 1}},
	{"saquery PIR", nil, map[string]int{"PortInfoRecord dump": 20 + 80 + 16}},
	{"saquery PIR {spine-0-0}/2", nil, map[string]int{"PortInfoRecord dump": 1}},
	{"saquery SWIR", nil, map[string]int{"SwitchInfoRecord dump": 20}},
	{"saquery LR", nil, map[string]int{"LinkRecord dump": 96}},
	{"saquery LR {leaf-0-0}/3", nil, map[string]int{"LinkRecord dump": 1}},
	{"saquery LFTR", nil, map[string]int{"LFT Record dump": 20}},
	{"saquery MFTR", nil, nil},
	{"saquery SMIR", []string{"SMInfoRecord dump"}, nil},
	{"saquery GIR", nil, map[string]int{"GUIDInfo Record dump": 36}},
	{"saquery MCMR", []string{"MCMember Record dump"}, nil},
	{"saquery -g", []string{"MGID"}, nil},
	{"saquery PR --src-to-dst {node-1}:{node-2}", []string{"PathRecord dump"}, nil},
	{"saquery --src-to-dst node-1:node-2", []string{"PathRecord dump"}, nil},
	{"saquery SL2VL", []string{"SL2VLTableRecord dump"}, nil},
	{"saquery VLAR", []string{"VLArbTableRecord dump"}, nil},
	{"saquery --smkey 1 PKTR {node-2}/1/0", []string{"0xffff"}, map[string]int{"PKeyTableRecord dump": 1}},
	{"saquery IIR", nil, nil},
	{"saquery SR", nil, nil},

	// Agents of programs, and congestion control.
	{"ibping -c 2 {node-2}", []string{"2 packets transmitted, 2 received, 0% packet loss"}, nil},
	{"ibsysstat {node-3}", []string{"sysstat ping succeeded"}, nil},
	{"ibsysstat {node-3} cpu", []string{"cpu 0: model"}, nil},
	{"ibccquery ClassPortInfo {node-0}", []string{"ClassVersion"}, nil},
	{"ibccquery CongestionInfo {node-0}", []string{"CongestionInfo:"}, nil},
	{"ibccquery CongestionKeyInfo {node-0}", []string{"CC_KeyProtectBit"}, nil},
	{"ibccquery CongestionLog {spine-0-0}", []string{"LogType"}, nil},
	{"ibccquery TimeStamp {spine-0-0}", []string{`Timestamp:\.*\d`}, nil},
	{"ibccconfig CACongestionSetting {node-0} 0 0x3 150 1 7 2", nil, nil},
	{"ibccquery CACongestionSetting {node-0}", []string{`CCTI_Timer:\.*150`, `CCTI_Min:\.*2`}, nil},
	{"ibccconfig CongestionControlTable {node-0} 1 0 0:5 1:9", nil, nil},
	{"ibccquery CongestionControlTable {node-0}", []string{`CCTI_Limit:\.*1\n`, `CCT_Multiplier:\.*9`}, nil},
	{"ibccconfig SwitchCongestionSetting {spine-0-0} 0x1F 0x1FFFFFFFFF 0x0 0xF 8 0 0:0 7", nil, nil},
	{"ibccquery SwitchCongestionSetting {spine-0-0}", []string{`Threshold:\.*0x0f`, `Marking_Rate:\.*7`}, nil},
	{"ibccconfig SwitchPortCongestionSetting {spine-0-0} 1 1 1 9 1 1", nil, nil},
	{"ibccquery SwitchPortCongestionSetting {spine-0-0} 1", []string{`Threshold:\.*0x09`}, nil},

	// The test of subnet administration, part by part.
	{"osmtest -f c -i OUT/inventory", []string{"OSMTEST: TEST \"Create Inventory\" PASS"}, nil},
	{"osmtest -f m -i OUT/inventory", []string{"OSMTEST: TEST \"Multicast\" PASS"}, nil},
	{"osmtest -f q -i OUT/inventory", []string{"OSMTEST: TEST \"QoS: VLArb and SLtoVL\" PASS"}, nil},
	{"osmtest -f a -i OUT/inventory", []string{"OSMTEST: TEST \"All Validations\" PASS"}, nil},
}
