#!/bin/sh
# key.sh: prints the outputs key and path of the action's step: the name of what is to be
# installed, and its directory below $CACHE. The name is made from the content of $ARCHIVE or of
# these sources, or from $ARCHIVE and $SHA256 if that is an address. Without $SHA256 an address may
# have another content tomorrow, so then there is no key.
set -eu
cached=yes
ARCHIVE=${ARCHIVE:-}
ARCHIVE=${ARCHIVE#file://}
case $ARCHIVE in
*://*)
	sum=$(printf '%s %s' "$ARCHIVE" "${SHA256:-}" | sha256sum)
	[ -n "${SHA256:-}" ] || cached=
	;;
?*)
	sum=$({ printf '%s ' "${SHA256:-}"; cat "$ARCHIVE"; } | sha256sum)
	;;
*)
	cd "$(dirname "$0")/../.."
	sum=$(find . -type f \( -name '*.go' -o -name '*.[chs]' -o -name '*.map' -o -name 'go.*' -o -name Makefile -o -name install.sh \) ! -path './bin/*' |
		LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum)
	;;
esac
key=softrdma-$(uname -s)-$(uname -m)-$(printf %.16s "$sum")
echo "key=${cached:+$key}"
echo "path=$CACHE/softrdma/$key"
