#!/bin/busybox sh
# The guest's first script: loads the modules of the initramfs, puts a writable layer over the host's root file
# system, sets up the networks with their rxe and siw devices, and becomes the agent. What it needs to know is on the kernel's
# command line as lab.NAME=VALUE.
export PATH=/bin
busybox mkdir -p /proc /sys /dev /host /upper /new
busybox mount -t proc proc /proc
busybox --install -s /bin

die() {
    echo "init: FAILED: $*" >&2
    poweroff -f
}

mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

for word in $(cat /proc/cmdline); do
    case "$word" in
    lab.*=*) name=${word%%=*}; eval "lab_${name#lab.}=\${word#*=}" ;;
    esac
done

while read -r module; do
    insmod "/modules/$module" || die "insmod $module"
done </modules/order

mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host || die "mount the host's files"
mount -t tmpfs tmpfs /upper
mkdir /upper/rw /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/rw,workdir=/upper/work overlay /new || die "mount the overlay"

mount -t proc proc /new/proc
mount -t sysfs sysfs /new/sys
mount -t devtmpfs devtmpfs /new/dev
mount -t tmpfs tmpfs /new/run
mkdir -p /new/dev/shm /new/dev/pts /new/lib/modules
mount -t tmpfs tmpfs /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t configfs configfs /new/sys/kernel/config
mount -o bind "/host$lab_modules" /new/lib/modules || die "mount the modules of $lab_modules"

ulimit -l unlimited
hostname "$lab_name"
ip link set lo up

# device INTERFACE IPV4 IPV6 NAME TYPE
device() {
    echo 0 >"/proc/sys/net/ipv6/conf/$1/accept_ra"
    echo 0 >"/proc/sys/net/ipv6/conf/$1/accept_dad"
    ip link set "$1" mtu "$lab_mtu" || die "set the MTU of $1 to $lab_mtu"
    ip link set "$1" up
    ip addr add "$2" dev "$1" || die "add $2"
    chroot /new /usr/sbin/ip -6 addr add "$3" dev "$1" nodad || die "add $3"
    chroot /new /usr/bin/rdma link add "$4" type "$5" netdev "$1" || die "add $4"
}
device eth0 "$lab_ip4" "$lab_ip6" rxe0 rxe
device eth1 "$lab_iwarp4" "$lab_iwarp6" siw0 siw

cp /agent /new/run/agent
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
echo "init: up"
exec chroot /new /run/agent
