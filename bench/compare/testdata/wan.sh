# Three hosts, client, router and server, in network namespaces of a mount namespace. $1 is the softrdma program, $2 what to do.
set -e
softrdma=$1 what=$2
ip link set lo up
mount -t tmpfs none /run
mount -t tmpfs none /dev/shm
mkdir -p /run/netns
for n in c r s; do ip netns add $n; ip -n $n link set lo up; done
ip link add c0 netns c type veth peer name rc netns r
ip link add s0 netns s type veth peer name rs netns r
for x in "c c0" "r rc" "r rs" "s s0"; do ip -n ${x% *} link set ${x#* } mtu 9000 up; done
ip -n c addr add 10.9.1.1/24 dev c0
ip -n r addr add 10.9.1.254/24 dev rc
ip -n r addr add 10.9.2.254/24 dev rs
ip -n s addr add 10.9.2.1/24 dev s0
ip -n c -6 addr add fd00:1::1/64 dev c0 nodad
ip -n r -6 addr add fd00:1::254/64 dev rc nodad
ip -n r -6 addr add fd00:2::254/64 dev rs nodad
ip -n s -6 addr add fd00:2::1/64 dev s0 nodad
ip -n c route add default via 10.9.1.254
ip -n s route add default via 10.9.2.254
ip -n c -6 route add default via fd00:1::254
ip -n s -6 route add default via fd00:2::254
ip netns exec r sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1

nft() { ip netns exec r nft "$@"; }
mtu() { ip -n r link set rs mtu $1; ip -n s link set s0 mtu $1; }
begin() { # in the background, until the script ends
	ip netns exec s timeout 60 "$softrdma" "$@" >/run/server 2>&1 &
	sleep 2
}
client() { ip netns exec c timeout 50 "$softrdma" "$@" 2>&1; }

case $what in
narrow-*) # the path shrinks to 1500 bytes during a transfer, over IPv4 without ICMP
	nft add table inet f
	nft add chain inet f out '{ type filter hook output priority 0; }'
	nft add rule inet f out icmp type destination-unreachable drop
	server=10.9.2.1
	[ $what = narrow-6 ] && server=fd00:2::1
	begin perf write bw --keep --same-host off
	(sleep 2; mtu 1500) &
	for op in write read send; do
		client perf $op bw -D 4 -s 65536 --same-host off $server >/run/out && echo "$op ok" || true
		tail -2 /run/out
	done
	;;
nat) # the client is behind NAT
	nft add table ip n
	nft add chain ip n p '{ type nat hook postrouting priority 100; }'
	nft add rule ip n p oifname rs masquerade
	ip -n s route del default
	begin rping -s -a 10.9.2.1 --protocol iwarp --psk-file "$3"
	client rping -c -a 10.9.2.1 -C 3 --protocol iwarp --psk-file "$3" && echo "iWARP with TLS ok"
	begin rping -s -a 10.9.2.1 -p 7175 --same-host off
	client rping -c -a 10.9.2.1 -p 7175 -C 3 --same-host off || true
	;;
blocked) # a firewall rejects the port
	nft add table inet b
	nft add chain inet b f '{ type filter hook forward priority 0; }'
	begin rping -s -a 10.9.2.1 --same-host off
	for with in port-unreachable admin-prohibited; do
		nft flush chain inet b f
		nft add rule inet b f iifname rc udp dport 4791 reject with icmpx $with
		from=$(date +%s%N)
		client rping -c -a 10.9.2.1 -C 3 --same-host off || true
		echo "$with took $((($(date +%s%N) - from) / 1000000)) ms"
	done
	;;
esac
kill $(jobs -p) 2>/dev/null || true
