#!/bin/sh
# need.sh PROGRAM PACKAGE: installs a program's Debian package if the program is
# missing and it runs as root. PROGRAM may be the path of any file, with * in it. Exit
# code 0: the program exists. 1: it is missing, and the caller skips the tests that need
# it. 2: it is missing in CI, which is an error.
set -u
program=$1 package=$2
exists() {
	case $program in
	/*) for file in $program; do [ -e "$file" ] && return; done; return 1 ;;
	*) command -v "$program" >/dev/null ;;
	esac
}
exists && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	install="apt-get -q -y -o DPkg::Lock::Timeout=240 install --no-install-recommends $package"
	# The list of packages may be missing or outdated.
	$install >/dev/null 2>&1 || { apt-get -q update >/dev/null && $install >/dev/null; }
	exists && exit 0
fi
if [ -n "${CI:-}" ]; then
	echo "CI lacks $program (Debian: $package)" >&2
	exit 2
fi
echo "SKIPPED: this machine lacks $program (Debian: $package; root installs it here)" >&2
exit 1
