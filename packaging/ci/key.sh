#!/bin/sh
# key.sh: prints the outputs key and path of the action's step: the name of what is to be
# installed, and its directory below $CACHE. The name is made from $ARCHIVE and $SHA256, or
# from the content of these sources.
set -eu
if [ -n "${ARCHIVE:-}" ]; then
	sum=$(printf '%s %s' "$ARCHIVE" "${SHA256:-}" | sha256sum)
else
	cd "$(dirname "$0")/../.."
	sum=$(find . -type f \( -name '*.go' -o -name '*.[ch]' -o -name '*.map' -o -name 'go.*' -o -name Makefile \) ! -path './bin/*' |
		LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum)
fi
key=softrdma-$(uname -s)-$(uname -m)-$(printf %.16s "$sum")
echo "key=$key"
echo "path=$CACHE/softrdma/$key"
