# Ceph: a monitor, a manager and two OSDs that speak by RDMA verbs alone, an object written and read
# back, and rados bench. It runs in a folder of its own. SERVER is the device's address.
set -e
ip=SERVER dir=$PWD
gid=$(cat /sys/class/infiniband/rxe0/ports/1/gids/1)
export CEPH_CONF="$dir/ceph.conf"
fsid=$(cat /proc/sys/kernel/random/uuid)
cat >ceph.conf <<EOF
[global]
fsid = $fsid
mon host = [v1:$ip:6789]
mon initial members = a
ms type = async+rdma
ms bind msgr2 = false
ms async rdma device name = rxe0
ms async rdma roce ver = 2
ms async rdma gid idx = 1
ms async rdma local gid = $gid
ms async rdma buffer size = 65536
ms async rdma send buffers = 512
ms async rdma receive buffers = 16384
ms async rdma receive queue len = 512
auth cluster required = none
auth service required = none
auth client required = none
public network = $ip/32
cluster network = $ip/32
osd pool default size = 2
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 1073741824
run dir = $dir/run
admin socket = $dir/run/\$name.asok
pid file = $dir/run/\$name.pid
log file = $dir/log.\$name
mon data = $dir/mon
mgr data = $dir/mgr
osd data = $dir/osd\$id
keyring = $dir/keyring
EOF
mkdir run mon mgr osd0 osd1
ceph-authtool --create-keyring keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
monmaptool --create --addv a "[v1:$ip:6789]" --fsid "$fsid" monmap
ceph-mon --mkfs -i a --monmap monmap --keyring keyring

# Ceph's clients may send their first command before the monitor's map has told them the cluster's
# id. The monitor then refuses "wrong fsid". This is Ceph's own race: the command and the map cross.
# So commands are repeated, and OSDs are started again, as systemd does.
again() {
	for try in $(seq 20); do
		timeout 30 "$@" && return
		sleep .5
	done
	return 1
}
daemons=
stop() {
	for pid in $daemons; do kill -9 "$pid"; done
	for file in run/osd.*.pid; do kill -9 "$(cat "$file")"; done
} 2>/dev/null
trap stop EXIT
ceph-mon -f -i a >mon.out 2>&1 &
daemons=$!
again ceph -s
for i in 0 1; do
	id=$(cat /proc/sys/kernel/random/uuid)
	again ceph osd new "$id" $i
	ceph-osd -i $i --mkfs --osd-uuid "$id" >osd$i.mkfs 2>&1
	(for try in $(seq 20); do ceph-osd -f -i $i >>osd$i.out 2>&1 || true; done) &
	daemons="$daemons $!"
done
ceph-mgr -f -i x >mgr.out 2>&1 &
daemons="$daemons $!"
up() { ceph osd stat | grep -q "2 up"; }
for try in $(seq 30); do up && break || sleep 1; done
up
again ceph osd pool create bench 8
head -c 8388608 /dev/urandom >in
again rados -p bench put object in
again rados -p bench get object out
cmp in out
timeout 60 rados bench -p bench 5 write --no-cleanup -b 1048576 -t 8
timeout 60 rados bench -p bench 5 seq -t 8
again ceph -s
echo "Ceph returned what was written"
