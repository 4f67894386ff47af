#!/bin/sh
# packages.sh PACKAGE...: installs those Debian packages that are missing. It needs no network if
# there are none.
set -eu
missing=
for package; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
as=
[ "$(id -u)" = 0 ] || as=sudo
export DEBIAN_FRONTEND=noninteractive
$as apt-get -q update >&2
# shellcheck disable=SC2086 # words
$as apt-get -q -y install --no-install-recommends $missing >&2
