//go:build interop && linux

package uverbs

import (
	"fmt"
	"strings"
	"testing"
)

// Programs count their packets and messages where the server shows them, in memory and on the
// network, and with the server's engine. Memory loses nothing, so both directions have as many. A busy
// machine may lose packets of the network, which are sent again.
func TestProgramsCountPacketsAndMessages(t *testing.T) {
	const script = `dir=/sys/class/infiniband/rxe0/ports/1/hw_counters
# What is counted now may show when lifespan is over, in milliseconds.
show() { sleep $(printf .%03d $(cat $dir/lifespan)); echo counted $(cat $dir/sent_pkts) $(cat $dir/rcvd_pkts) $(cat $dir/rdma_sends) $(cat $dir/rdma_recvs); }
run() {
	"$@" -p "$port" >/dev/null & server=$!
	for i in $(seq 200); do ss -ltnH "sport = $port" | grep -q . && break; sleep .05; done
	"$@" -p "$port" "$addr" >/dev/null && wait $server && show
}
port=$1 addr=$2
run ib_write_bw -F -n 20 -s 1048576 && run ib_send_bw -F -n 100 -s 1024 && run ib_send_bw -c UD -F -n 100 -s 512`
	for engine, env := range engines(t) {
		for _, path := range []string{"auto", "off"} {
			t.Run(engine+", same host "+path, func(t *testing.T) {
				p := newInProgram(t, "127.14.4.43")
				p.env = append(env[:len(env):len(env)], "SOFTRDMA_SAME_HOST="+path)
				out := p.succeeds(t, "sh", "-c", script, "sh", freePort(t), "127.14.4.43")
				var writes, sends, datagrams [4]int // packets sent and received, SENDs, receives
				for _, c := range []*[4]int{&writes, &sends, &datagrams} {
					_, out, _ = strings.Cut(out, "counted ")
					if _, err := fmt.Sscan(out, &c[0], &c[1], &c[2], &c[3]); err != nil {
						t.Fatalf("%v: %q", err, out)
					}
				}
				packets := 20 << 20 / p.s.devices[0].Verbs.QueryPort().ActiveMTU
				differ := func(sent, received int) bool { return received != sent && (path == "auto" || received > sent) }
				if n := writes[1]; n < packets || path == "auto" && n > 2*packets || differ(writes[0], n) || writes[2] != 0 || writes[3] != 0 {
					t.Errorf("20 WRITEs of %d packets in all: %v", packets, writes)
				}
				if n := sends[1] - writes[1]; n < 100 || path == "auto" && n > 400 || differ(sends[0], sends[1]) || sends[2] != 100 || sends[3] != 100 {
					t.Errorf("100 SENDs: %v after %v", sends, writes)
				}
				if n := datagrams[0] - sends[0]; n != 100 || differ(datagrams[0], datagrams[1]) || datagrams[2] != 200 || datagrams[3] != 200 {
					t.Errorf("100 datagrams: %v after %v", datagrams, sends)
				}
			})
		}
	}
}
