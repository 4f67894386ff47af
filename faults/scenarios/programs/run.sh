#!/bin/sh
# Runs one program for a few seconds, server and client on one address: run.sh NAME ADDRESS.
# The exit code is the client's, else the server's. An end that is still there a while after the other is ended,
# with exit code 99: it waits without end.
name=$1 at=$2 programs=$(cd "$(dirname "$0")" && pwd)
cd "$(mktemp -d)" || exit 1

# pair runs a server and a client. When one has ended, the other has 8 seconds.
pair() {
	sh -c "exec $1" & server=$!
	sleep 1
	sh -c "exec $2" & client=$!
	i=0
	while [ $i -lt 80 ]; do
		left=
		! kill -0 $server 2>/dev/null || left="$left server"
		! kill -0 $client 2>/dev/null || left="$left client"
		case $left in
		"") break ;;
		" server client") ;;
		*) i=$((i + 1)) ;;
		esac
		sleep .1
	done
	case $left in
	*server) kill -9 $server ;;
	*client) kill -9 $client ;;
	esac
	wait $client
	status=$?
	wait $server
	other=$?
	if [ -n "$left" ]; then
		echo "the client ends with exit code $status, the server with $other:$left waits without end"
		exit 99
	fi
	[ $status != 0 ] || status=$other
	exit $status
}

perftest() {
	pair "$1 -F -D 3 -s 8192" "$1 -F -D 3 -s 8192 $at"
}

ucx() {
	export UCX_TLS="$1,self" UCX_WARN_UNUSED_ENV_VARS=n
	pair ucx_perftest "ucx_perftest $at -t $2 -s 20000 -n ${MESSAGES:-$3} -w 10"
}

case $name in
rping) pair "rping -s -a $at -C 1500 -S 4000 -V" "rping -c -a $at -C 1500 -S 4000 -V" ;;
ucmatose) pair "ucmatose -b $at -c 5 -C 8000 -S 10000" "ucmatose -s $at -c 5 -C 8000 -S 10000" ;;
rstream) pair "rstream -b $at -S 40000 -C 20000 -T v" "rstream -s $at -S 40000 -C 20000 -T v" ;;
ib_send_bw | ib_read_bw | ib_write_bw | ib_atomic_bw) perftest $name ;;
ibv_rc_pingpong) pair "ibv_rc_pingpong -g 0 -e -c -n 8000 -s 8192" "ibv_rc_pingpong -g 0 -e -c -n 8000 -s 8192 $at" ;;
ucx-rc) ucx rc_v,ud_v tag_bw 60000 ;;
ucx-ud) ucx ud_v tag_bw 40000 ;;
openmpi)
	[ -x "$EXCHANGE" ] || { echo "EXCHANGE does not name the program of exchange.c"; exit 1; }
	export UCX_TLS=rc_v,ud_v,self OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	mpirun --oversubscribe -np 2 --mca pml ucx --mca osc ucx "$EXCHANGE" "${ROUNDS:-6}"
	;;
fio)
	pair "fio --thread --name=server --ioengine=rdma --port=7204 --filename=rdma --rw=read --bs=64k --size=${SIZE:-128m} --iodepth=64 --verify=crc32c" \
		"fio --thread --name=client --ioengine=rdma --hostname=$at --port=7204 --rw=write --bs=64k --size=${SIZE:-128m} --iodepth=1 --verb=send --verify=crc32c --do_verify=0 --verify_state_save=0"
	;;
rdma-core) # all its tests: most make and destroy objects, or are skipped
	cp -r /usr/share/doc/rdma-core/tests . && gunzip -f tests/*.gz && exec /usr/bin/python3 "$programs/rdma-core.py" --dev rxe0 -v
	;;
*)
	echo "no program $name" >&2
	exit 2
	;;
esac
