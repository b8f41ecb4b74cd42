#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make install DESTDIR=…`: everything stands where the host looks for it, an administrator's configuration stays, and
# uninstall leaves nothing. With --disable-host-dirs (distcheck) nothing may lie outside of the prefix. Prints TAP.

cd "$TOP_BUILDDIR" || exit 99
dest=$(mktemp -d) || exit 99
trap 'rm -rf "$dest"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR

n=0
check() { # description, command…
        local what=$1 out
        shift
        n=$((n + 1))
        if out=$("$@" 2>&1); then
                echo "ok $n - $what"
        else
                echo "not ok $n - $what"
                printf '%s\n' "$out" | tail -n 20 | sed 's/^/# /'
        fi
}

# A directory variable of the Makefile, expanded.
dir() {
        local value
        value=$(sed -n "s/^$1 = //p" Makefile | head -n 1)
        while [[ $value =~ \$\{([a-z_]*)\} ]]; do
                value=${value//"${BASH_REMATCH[0]}"/$(dir "${BASH_REMATCH[1]}")}
        done
        printf '%s' "$value"
}

has() {
        [ -f "$dest$1" ] || { echo "missing: $1"; return 1; }
}

install() {
        make -s install DESTDIR="$dest"
}

unit_names_the_daemon() {
        grep -q "^ExecStart=$(dir sbindir)/qschedd$" "$dest$(dir systemunitdir)/qschedd.service" && ! grep -nE '@[A-Za-z_]+@' "$dest$(dir systemunitdir)/qschedd.service"
}

configuration_is_all_comments() {
        local file
        file=$dest$(dir sysconfdir)/qsched/qschedd.conf
        grep -q '^#[A-Za-z]*=' "$file" && ! grep -vE '^(#.*|;.*|\[.*\]|[[:space:]]*)$' "$file"
}

configuration_stays() {
        local file
        file=$dest$(dir sysconfdir)/qsched/qschedd.conf
        echo '# mine' >"$file" && install && [ "$(cat "$file")" = '# mine' ] && [ -s "$file.new" ]
}

inside_prefix() {
        local left
        left=$(find "$dest" ! -type d ! -path "$dest$(dir prefix)/*")
        [ -z "$left" ] || { printf '%s\n' "$left"; return 1; }
}

uninstall_leaves_nothing() {
        local left
        rm -f "$dest$(dir sysconfdir)/qsched/qschedd.conf"
        make -s uninstall DESTDIR="$dest" || return 1
        left=$(find "$dest" ! -type d)
        [ -z "$left" ] || { printf '%s\n' "$left"; return 1; }
}

check "make install works" install
for file in \
        "$(dir sbindir)/qschedd" \
        "$(dir bindir)/qschedctl" \
        "$(dir systemunitdir)/qschedd.service" \
        "$(dir systemunitdir)/qsched.slice" \
        "$(dir dbuspolicydir)/org.qsched1.conf" \
        "$(dir dbussystemservicedir)/org.qsched1.service" \
        "$(dir polkitactiondir)/org.qsched1.policy" \
        "$(dir sysusersdir)/qsched.conf" \
        "$(dir tmpfilesdir)/qsched.conf" \
        "$(dir bashcompletiondir)/qschedctl" \
        "$(dir mandir)/man8/qschedd.8" \
        "$(dir mandir)/man1/qschedctl.1" \
        "$(dir mandir)/man5/qschedd.conf.5" \
        "$(dir mandir)/man5/qsched.job.5" \
        "$(dir mandir)/man5/qsched.instance.5" \
        "$(dir mandir)/man5/qsched.record.5" \
        "$(dir mandir)/man5/org.qsched1.5" \
        "$(dir sysconfdir)/qsched/qschedd.conf"; do
        check "${file##*/} is in ${file%/*}" has "$file"
done
check "the unit starts the daemon that was installed" unit_names_the_daemon
check "the default configuration changes nothing" configuration_is_all_comments
check "a configuration that was edited stays, the new one is beside it" configuration_stays
# shellcheck disable=SC2016 # as it stands in the Makefile
if grep -q '^systemunitdir = ${prefix}/' Makefile; then
        check "nothing lies outside of the prefix" inside_prefix
else
        check "D-Bus, polkit and systemd files lie where the host looks" \
                test "$(dir dbuspolicydir)" = /usr/share/dbus-1/system.d -a "$(dir polkitactiondir)" = /usr/share/polkit-1/actions
fi
check "uninstall leaves nothing" uninstall_leaves_nothing
echo "1..$n"
