//go:build interop && linux

package fabrics

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The fat tree has 16 adapters, 20 switches and 48 cables.
const tree = "fat-tree:k=4"

// TestToolsOfInfiniBandSeeTheFabric runs Debian's tools on a fabric that opensm has set up.
func TestToolsOfInfiniBandSeeTheFabric(t *testing.T) {
	r := newRig(t, "--topology", tree, "--no-sm")
	r.opensm("node-0")
	r.at("node-2", "ibping", "-S")
	r.at("node-3", "ibsysstat", "-S")
	lids := r.lids()
	out := t.TempDir()
	for _, x := range tools {
		t.Run(x.args, func(t *testing.T) {
			x.run(r.within(t), "node-1", lids, out)
		})
	}
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// find returns the first group of a regular expression.
func find(t *testing.T, text, expression string) string {
	t.Helper()
	m := regexp.MustCompile(expression).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %q in:\n%s", expression, tail(text))
	}
	return m[1]
}

// lids returns the LIDs of nodes by their names.
func (r *rig) lids() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	said := r.run("node-1", "ibnetdiscover")
	for _, m := range regexp.MustCompile(`(?m)^Switch\t.*# "([^"]+)" .*port 0 lid (\d+)`).FindAllStringSubmatch(said, -1) {
		all[m[1]] = m[2]
	}
	for _, m := range regexp.MustCompile(`(?m)^Ca\t.*# "([^"]+)"\n\[1\].*# lid (\d+)`).FindAllStringSubmatch(said, -1) {
		all[m[1]] = m[2]
	}
	if len(all) != 36 {
		r.t.Fatalf("%d nodes with LIDs, expected 36, in:\n%s", len(all), tail(said))
	}
	return all
}

// A hop is a cable of a route: what leaves one port arrives at the other.
type hop struct{ from, to end }

type end struct{ lid, port string }

// route asks ibtracert for the cables between two adapters.
func (r *rig) route(from, to string) (hops []hop) {
	r.t.Helper()
	lids := r.lids()
	said := r.run("node-1", "ibtracert", lids[from], lids[to])
	last := find(r.t, said, `From ca .* lid (\d+)-`)
	for _, m := range regexp.MustCompile(`\[(\d+)\] -> (?:switch|ca) port \{[^}]*\}\[(\d+)\] lid (\d+)-`).FindAllStringSubmatch(said, -1) {
		hops = append(hops, hop{end{last, m[1]}, end{m[3], m[2]}})
		last = m[3]
	}
	return hops
}

// counter reads a counter of 64 bits of a port.
func (r *rig) counter(e end, name string) int {
	r.t.Helper()
	n, err := strconv.Atoi(find(r.t, r.run("node-1", "perfquery", "-x", e.lid, e.port), name+`:\.*(\d+)`))
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// TestCountersOfTheWayEqualWhatWasSent sends WRITEs by the LIDs that opensm has assigned, and
// compares the counters of every cable on the way.
func TestCountersOfTheWayEqualWhatWasSent(t *testing.T) {
	r := newRig(t, "--topology", tree, "--no-sm")
	r.opensm("node-0")
	way := r.route("node-2", "node-14")
	if len(way) != 6 {
		t.Fatalf("%d cables from one pod to another, expected 6: %v", len(way), way)
	}
	read := func() (all []int) {
		for _, h := range way {
			all = append(all, r.counter(h.from, "PortXmitData"), r.counter(h.to, "PortRcvData"))
		}
		return all
	}
	const messages, size, mtu = 2000, 65536, 4096
	before := read()
	server := r.at("node-14", "stdbuf", "-oL", "ib_write_bw", "-F", "-s", fmt.Sprint(size), "-n", fmt.Sprint(messages), "-m", fmt.Sprint(mtu))
	server.await("Waiting for client")
	r.run("node-2", "ib_write_bw", "-F", "-s", fmt.Sprint(size), "-n", fmt.Sprint(messages), "-m", fmt.Sprint(mtu), "127.0.0.1")
	server.succeeds()
	// LRH, BTH and ICRC of each packet, and the RETH of each message, in words of 4 bytes.
	want := messages * (size + size/mtu*(8+12+4) + 16) / 4
	for i, now := range read() {
		// Management and the datagrams that read the counters take the same cables.
		if got := now - before[i]; got < want || got > want+want/100 {
			t.Errorf("cable %d of %d, end %d: %d words, expected %d and up to a hundredth more", i/2+1, len(way), i%2, got, want)
		}
	}
}

// TestTransferSurvivesACutCable cuts the cables of a switch on the way of a transfer. opensm
// learns of it by traps and routes around the switch.
//
// This can take opensm ten seconds: a sweep that runs when the cables are cut waits .8 s for each
// four questions that it has sent through them. So the queue pairs have a timeout of 1.07 s (18)
// and its repetitions, 27 s in all, in place of perftest's 67 ms, which give up after 1.8 s.
func TestTransferSurvivesACutCable(t *testing.T) {
	r := newRig(t, "--topology", tree, "--no-sm")
	sm := r.opensm("node-0")
	before := r.fabric("trace", "node-2", "node-14")
	spine := find(t, before, `(spine-\d+-\d+|core-\d+-\d+|core-\d+)`)
	server := r.at("node-14", "stdbuf", "-oL", "ib_write_bw", "-F", "-u", "18", "-D", "8")
	server.await("Waiting for client")
	client := r.at("node-2", "stdbuf", "-oL", "ib_write_bw", "-F", "-u", "18", "-D", "8", "127.0.0.1")
	client.await("#bytes")
	r.fabric("fail", spine)
	r.eventually("a way around "+spine, func() bool { return !strings.Contains(r.trace("node-2", "node-14"), spine) })
	if said := sm.said.String(); !strings.Contains(said, "num:128") {
		t.Errorf("opensm got no trap 128:\n%s", tail(said))
	}
	r.fabric("repair", spine)
	r.eventually("all links", func() bool { return strings.Contains(r.fabric("status"), "48 active") })
	client.succeeds()
	server.succeeds()
}

// TestLinksInTroubleTellTheManager loses the grants of a cable, then most of its packets. The
// leaf at its end reports the watchdog of flow control and the errors of the link to opensm.
func TestLinksInTroubleTellTheManager(t *testing.T) {
	r := newRig(t, "--topology", tree, "--no-sm")
	sm := r.opensm("node-0")
	r.fabric("faults", "node-15:1", "--credit-loss", "1")
	sm.await("num:131")
	leaf := r.lids()["leaf-3-1"]
	if said := r.run("node-1", "perfquery", "--vlxmitflowctlerrors", leaf, "4"); !regexp.MustCompile(`UpdateErrors0:\.*[1-3]`).MatchString(said) {
		t.Errorf("the counters of the leaf: %s", said)
	}
	r.fabric("faults", "node-15:1", "--none")
	r.fabric("faults", "node-15:1", "--bit-errors", "1e-3")
	r.eventually("trap 129", func() bool {
		<-r.at("node-15", "smpquery", "-t", "100", "-D", "nodeinfo", "0,1").done // most of its packets are lost
		return strings.Contains(sm.said.String(), "num:129")
	})
}

// TestProgramsConnectByAddress runs programs of rdma_cm, which name their peers by IP address.
// opensm answers their questions for paths.
func TestProgramsConnectByAddress(t *testing.T) {
	r := newRig(t, "--topology", tree, "--no-sm")
	r.opensm("node-0")
	const addr = "10.77.0.15" // of node-14
	for _, x := range []struct{ name, server, client, words string }{
		{"rping", "rping -s -v -C 3 -a " + addr, "rping -c -v -C 3 -a " + addr, "ping data: rdma-ping-2: CDEFGH"},
		{"ucmatose", "ucmatose -b " + addr, "ucmatose -s " + addr, "return status 0"},
		{"udaddy", "udaddy -b " + addr, "udaddy -s " + addr, "return status 0"},
		{"rstream", "rstream -S 4096 -C 100 -b " + addr, "rstream -S 4096 -C 100 -s " + addr, "800k"},
		{"write", "ib_write_bw -F -R -n 200", "ib_write_bw -F -R -n 200 " + addr, "rdma_cm QPs\t : ON"},
		{"send", "ib_send_lat -F -R -n 200", "ib_send_lat -F -R -n 200 " + addr, "rdma_cm QPs\t : ON"},
		{"datagrams", "ib_send_bw -F -R -c UD -s 1024 -n 200", "ib_send_bw -F -R -c UD -s 1024 -n 200 " + addr, "rdma_cm QPs\t : ON"},
		{"IP over InfiniBand", "udaddy -p 0x0002 -b " + addr, "udaddy -p 0x0002 -s " + addr, "return status 0"},
		{"riostream", "riostream -S 4096 -C 10 -I 20 -T v -b " + addr, "riostream -S 4096 -C 10 -I 20 -T v -s " + addr, "custom"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r.within(t).meet(x.server, x.client, x.words)
		})
	}
}

// TestManagersTakeOverFromEachOther ends opensm and the fabric's own manager in turn.
func TestManagersTakeOverFromEachOther(t *testing.T) {
	r := newRig(t, "--topology", "star:4", "--priority", "5")
	r.eventually("the own manager", func() bool { return strings.Contains(r.run("node-1", "sminfo"), "priority 5 state 3") })
	first := r.opensm("node-0", "-p", "9")
	r.eventually("opensm as master", func() bool { return strings.Contains(r.run("node-1", "sminfo"), "priority 9 state 3") })
	first.signal(syscall.SIGKILL)
	r.eventually("the own manager after opensm was killed", func() bool {
		p := r.at("node-1", "sminfo")
		<-p.done // it fails without an answer
		return strings.Contains(p.said.String(), "priority 5 state 3")
	})
	conf := t.TempDir() + "/opensm.conf"
	writeFile(t, conf, "sminfo_polling_timeout 1000\npolling_retry_number 3\n")
	second := r.at("node-0", "opensm", "-F", conf, "-p", "1", "-f", "stdout")
	second.await("Entering STANDBY state")
	r.fabric("sm", "off")
	second.await("SUBNET UP")
	if said := r.run("node-1", "sminfo"); !strings.Contains(said, "priority 1 state 3") {
		t.Errorf("with the own manager off: %s", said)
	}
	r.fabric("sm", "on")
	r.eventually("the own manager, which is back", func() bool { return strings.Contains(r.run("node-1", "sminfo"), "priority 5 state 3") })
}

// Members of a multicast group at three nodes join at the subnet administrator, and get what one of
// them sends: with opensm, and with the fabric's own manager.
func TestProgramsShareAMulticastGroup(t *testing.T) {
	const udp, ipoib = "0x0111", "0x0002" // port spaces
	for _, x := range []struct{ manager, space, group string }{
		{"--no-sm", udp, "ff12:4001:ffff::f07:707"}, {"--sm", udp, "ff12:4001:ffff::f07:707"}, {"--sm", ipoib, "ff12:401b:ffff::f07:707"},
	} {
		t.Run(x.manager+" "+x.space, func(t *testing.T) {
			r := newRig(t, "--topology", tree, x.manager)
			if x.manager == "--no-sm" {
				r.opensm("node-0")
			}
			mckey := func(node, ip string, more ...string) *process {
				return r.at(node, append([]string{"stdbuf", "-oL", "mckey", "-p", x.space, "-m", "239.7.7.7", "-b", ip}, more...)...)
			}
			members := []*process{mckey("node-5", "10.77.0.6"), mckey("node-15", "10.77.0.16")}
			for _, p := range members {
				p.await("joined dgid: " + x.group + " mlid 0xc0")
			}
			members = append(members, mckey("node-2", "10.77.0.3", "-s")) // waits for 3 s after the join
			for _, p := range members {
				p.succeeds()
				if said := p.said.String(); !strings.Contains(said, "return status 0") {
					t.Errorf("%s: found\n%s", p.name, said)
				}
			}
			if said := r.run("node-1", "saquery", "-g"); strings.Contains(said, x.group) {
				t.Errorf("a group without members is left:\n%s", tail(said))
			}
			// For a program that is killed the fabric leaves.
			killed := mckey("node-5", "10.77.0.6")
			killed.await("joined dgid: " + x.group + " mlid 0xc0")
			if said := r.run("node-1", "saquery", "-g"); !strings.Contains(said, x.group) {
				t.Errorf("no group with a member:\n%s", tail(said))
			}
			killed.signal(syscall.SIGKILL)
			r.eventually("the end of the group", func() bool { return !strings.Contains(r.run("node-1", "saquery", "-g"), x.group) })
		})
	}
}
