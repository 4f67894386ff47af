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
nat-psp) # two clients with one address, each behind a translator of its own, and both behind another
	for n in a b; do
		ip netns add $n
		ip netns add h$n
		ip -n $n link set lo up
		ip -n h$n link set lo up
		ip link add x$n netns h$n type veth peer name y$n netns $n
		ip link add o$n netns $n type veth peer name r$n netns r
		ip -n h$n link set x$n up
		ip -n $n link set y$n up
		ip -n $n link set o$n up
		ip -n r link set r$n up
		ip -n h$n addr add 192.168.7.2/24 dev x$n
		ip -n $n addr add 192.168.7.1/24 dev y$n
		ip -n h$n route add default via 192.168.7.1
		ip netns exec $n sysctl -qw net.ipv4.ip_forward=1
		ip netns exec $n nft add table ip n
		ip netns exec $n nft add chain ip n p '{ type nat hook postrouting priority 100; }'
		ip netns exec $n nft add rule ip n p oifname o$n masquerade
	done
	ip -n a addr add 10.8.1.1/24 dev oa
	ip -n r addr add 10.8.1.254/24 dev ra
	ip -n a route add default via 10.8.1.254
	ip -n b addr add 10.8.2.1/24 dev ob
	ip -n r addr add 10.8.2.254/24 dev rb
	ip -n b route add default via 10.8.2.254
	nft add table ip n
	nft add chain ip n p '{ type nat hook postrouting priority 100; }'
	nft add rule ip n p oifname rs masquerade
	ip -n s route del default # the server reaches the translator only
	inside() { ip netns exec h$1 timeout 50 "$softrdma" "${@:2}" 2>&1; }
	begin rping -s -P -d -a 10.9.2.1 --psk-file "$3"
	inside a rping -c -a 10.9.2.1 -C 300 -S 4000 --psk-file "$3" >/run/a &
	one=$!
	inside b rping -c -a 10.9.2.1 -C 300 -S 4000 --psk-file "$3" >/run/b && echo "second client ok"
	wait $one && echo "first client ok"
	for f in a b server; do tail -n 3 /run/$f; done
	begin perf write bw --keep --psk-file "$3" -p 7180
	for op in write read send; do
		inside a perf $op bw -R -D 2 -s 65536 -p 7180 --psk-file "$3" 10.9.2.1 && echo "$op ok"
	done
	# The last translator gets another address, and forgets what it has of the old one (masquerade).
	(sleep 3
	ip -n r addr add 10.9.2.253/24 dev rs
	ip -n r addr del 10.9.2.254/24 dev rs
	ip -n r addr add 10.9.2.253/24 dev rs 2>/dev/null || true
	sleep .2
	wc -l </run/a >/run/then
	sleep 3
	wc -l </run/a >/run/later) &
	timeout 8 ip netns exec ha "$softrdma" rping -c -a 10.9.2.1 -v --psk-file "$3" >/run/a 2>&1 || true
	echo "pings: $(cat /run/then) soon after the change, $(cat /run/later) 3 s later"
	[ $(cat /run/later) -gt $(($(cat /run/then) + 10)) ] && echo "rebinding ok"
	;;
hole-6) # the path shrinks to 1500 bytes over IPv6, and no ICMPv6 message says so
	nft add table inet f
	nft add chain inet f out '{ type filter hook output priority 0; }'
	nft add rule inet f out icmpv6 type packet-too-big drop
	begin perf write bw --keep --same-host off
	(sleep 2; mtu 1500) &
	from=$(date +%s%N)
	client perf write bw -D 20 -s 65536 --same-host off fd00:2::1 || true
	echo "took $((($(date +%s%N) - from) / 1000000)) ms"
	;;
blocked) # a firewall rejects the port
	# Otherwise a router sends one ICMP message a second to a host, after the first six, and a failed connection has more.
	ip netns exec r sysctl -qw net.ipv4.icmp_ratelimit=0
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
