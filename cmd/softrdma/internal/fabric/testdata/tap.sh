# The wire of a tap, as tshark and lldpd see it. Arguments: the command, a folder. It runs in namespaces of its own.
set -e
command=$1 dir=$2
ip link set lo up
mount -t tmpfs none /run
mount -t tmpfs none /dev/shm
export SOFTRDMA_FABRIC_DIR=/run/fabrics
mkdir -p /run/fabrics /run/lldpd
await() { # a condition
	for i in $(seq 300); do
		if eval "$1" >/dev/null 2>&1; then return 0; fi
		sleep .1
	done
	echo "waited in vain for: $1" >&2
	exit 1
}
$command fabric up --ethernet --topology leaf-spine:leaves=2,spines=2,hosts=2 &
await "$command fabric status"
$command fabric tap fab0/node-0 tap0 &
await "ip link show tap0 up"
dumpcap -q -i tap0 -w "$dir/wire.pcapng" 2>"$dir/dumpcap.log" &
capture=$!
await "grep File: $dir/dumpcap.log"
lldpd -d -I tap0 2>"$dir/lldpd.log" &
lldpd=$!
await "lldpcli show neighbors"
$command fabric stall node-3 --sl 3
address=$($command fabric status | awk '/^node-3/{print $3}')
# More datagrams of priority 3 than the switches and the port hold.
python3 - "$address" <<'END'
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 96)
for i in range(3000):
    s.sendto(bytes(8000), (sys.argv[1], 4791))
    if i % 50 == 0:
        time.sleep(.002)
END
await "$command fabric counters node-0 | grep ETHERNET_QUEUE_FULL"
$command fabric trace node-0 node-3 --sl 3
$command fabric stall node-3 --none
lldpcli configure lldp custom-tlv add oui 00,80,c2 subtype 11 oui-info 08,10
lldpcli configure lldp tx-interval 1
await "$command fabric links | grep ETHERNET_MISMATCH_PFC"
await "lldpcli show neighbors details | grep fab0/leaf-0"
lldpcli show neighbors details
# A frame of this system that pauses the switch.
python3 - "$(ip -o link show tap0 | sed 's/.*ether \([0-9a-f:]*\).*/\1/')" <<'END'
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("tap0", 0))
f = bytes.fromhex("0180c2000001" + sys.argv[1].replace(":", "") + "8808" + "0101" + "0008" + "0000" * 3 + "ffff" + "0000" * 4)
s.send(f + bytes(60 - len(f)))
END
await "$command fabric counters leaf-0:3 | grep 'priority 3 pauses received'"
await "tshark -r '$dir/wire.pcapng' -Y 'macc.opcode == 0x0101 && eth.src == 02:00:00:00:00:05' | grep ." # dumpcap writes late
kill -INT $capture
wait $capture || true
kill $lldpd
$command fabric down
