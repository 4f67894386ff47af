#!/bin/sh
# install.sh DIRECTORY: puts the command softrdma into DIRECTORY. It comes from $ARCHIVE, an
# archive of make dist by path or address, whose SHA-256 is $SHA256 if that is set; or else it is
# built from these sources by Go and a C compiler.
set -eu
directory=$1
mkdir -p "$directory"
if [ -z "${ARCHIVE:-}" ]; then
	cd "$(dirname "$0")/../.."
	make preload build >&2
	# A file that is in use cannot be overwritten, only replaced.
	cp bin/softrdma "$directory/softrdma.new"
	mv "$directory/softrdma.new" "$directory/softrdma"
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ARCHIVE=${ARCHIVE#file://}
case $ARCHIVE in
http://*)
	if [ -z "${SHA256:-}" ]; then
		echo "softrdma: $ARCHIVE: expected https:// or a checksum: set sha256" >&2
		exit 1
	fi
	;;
esac
case $ARCHIVE in
*://*) curl -fsSL --retry 3 -o "$work/archive" "$ARCHIVE" ;;
*) cp "$ARCHIVE" "$work/archive" ;;
esac
if [ -n "${SHA256:-}" ] && ! echo "$SHA256  $work/archive" | sha256sum -c --status; then
	echo "softrdma: $ARCHIVE: expected SHA-256 $SHA256, found $(sha256sum < "$work/archive" | cut -d ' ' -f 1)" >&2
	exit 1
fi
tar -xzf "$work/archive" -C "$work"
mv "$work"/softrdma-*/softrdma "$directory/softrdma"
