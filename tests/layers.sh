#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The layers of the house, checked: a file includes only what lies at or below its own layer, and policy links whole
# with nothing but common, libm, pthread, NLopt and jansson, calls no I/O, clock or log, and has no variable that changes.
# Prints TAP.

cd "$TOP_SRCDIR" || exit 99

n=0
result() { # ok|not ok, description, comment lines
        n=$((n + 1))
        printf '%s %d - %s\n' "$1" $n "$2"
        [ -z "$3" ] || printf '%s\n' "$3" | sed 's/^/# /'
}

# Layer number of a path of the tree; empty: not restricted (tests).
layer() {
        case $1 in
        common/*) echo 1 ;;
        policy/*) echo 2 ;;
        daemon/readers/*) echo 3 ;;
        daemon/manager*) echo 5 ;;
        daemon/bus* | daemon/service*) echo 6 ;;
        daemon/main.c) echo 7 ;;
        daemon/*) echo 4 ;;
        ctl/*) echo 7 ;;
        esac
}

# Path of the tree that FILE means by #include "NAME"; empty: none of ours.
resolve() {
        local dir
        dir=$(dirname "$1")
        if [ -e "$dir/$2" ]; then
                realpath --relative-to=. "$dir/$2"
        elif [ -e "$2" ]; then
                echo "$2"
        fi
}

bad=
files=0
while IFS= read -r file; do
        files=$((files + 1))
        own=$(layer "$file")
        while IFS= read -r name; do
                target=$(resolve "$file" "$name")
                case $target in
                "")
                        [ "$name" = config.h ] || bad+="$file includes \"$name\", which is not in the tree"$'\n'
                        continue
                        ;;
                esac
                theirs=$(layer "$target")
                if [ -z "$theirs" ]; then
                        bad+="$file includes $target, which is in no layer"$'\n'
                elif [ "$theirs" -gt "$own" ]; then
                        bad+="$file (layer $own) includes $target (layer $theirs)"$'\n'
                fi
                case $file in
                ctl/*)
                        case $target in
                        ctl/* | common/* | policy/* | daemon/readers/*) ;;
                        *) bad+="$file includes $target: ctl may include common, policy and daemon/readers"$'\n' ;;
                        esac
                        ;;
                esac
        done < <(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file")
done < <(find common policy daemon ctl -name '*.[ch]' | sort)
if [ -n "$bad" ]; then
        result "not ok" "no include goes upward" "${bad%$'\n'}"
else
        result ok "no include goes upward ($files files)"
fi

tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
policy=$TOP_BUILDDIR/.libs/libpolicy.a common=$TOP_BUILDDIR/.libs/libcommon.a
if [ ! -e "$policy" ] || [ ! -e "$common" ]; then
        result "not ok" "policy links alone: $policy or $common has not been built"
        echo "1..$n"
        exit 1
fi

# shellcheck disable=SC2086 # lists of words
link() {
        echo 'int main(void) { return 0; }' >"$tmp/main.c"
        $TEST_CC $TEST_SANITIZERS -o "$tmp/alone" "$tmp/main.c" \
                -Wl,--whole-archive "$policy" -Wl,--no-whole-archive "$common" $TEST_POLICY_LIBS -lm -lpthread 2>&1
}

if out=$(link) && out=$("$tmp/alone" 2>&1); then
        result ok "policy links whole with common, jansson, NLopt, libm and pthread alone"
else
        result "not ok" "policy links whole with common, jansson, NLopt, libm and pthread alone" "$(printf '%s\n' "$out" | tail -n 20)"
fi

if [ -n "$TEST_SANITIZERS" ]; then
        result ok "policy calls no I/O, clock or log # SKIP sanitizers add calls of their own"
        result ok "policy has no variable that changes # SKIP sanitizers move variables"
else
        # fprintf to a stream in memory builds text; the streams of the process are what is forbidden.
        forbidden='open|openat|fopen|fdopen|read|write|pread|pwrite|printf|vprintf|puts|putchar|perror|stdin|stdout|stderr'
        forbidden+='|socket|connect|ioctl|getenv|secure_getenv|time|clock|clock_gettime|gettimeofday|rand|random|srand'
        forbidden+='|log_internal|log_open|syslog|__printf_chk|__read_chk|read_file_at|write_file_at'
        out=$(nm -A --undefined-only "$policy" | awk -v f="^($forbidden)(@.*)?$" '$NF ~ f { sub(/^[^:]*:/, ""); print }')
        if [ -n "$out" ]; then
                result "not ok" "policy calls no I/O, clock or log" "$out"
        else
                result ok "policy calls no I/O, clock or log"
        fi
        out=$(objdump -t "$policy" | awk '/file format/ { file = $1 } / O (\.data|\.bss|\.tbss|\.tdata|COMMON|\*COM\*)(\..*)?\t/ && !/\.data\.rel\.ro/ { print file, $NF }')
        if [ -n "$out" ]; then
                result "not ok" "policy has no variable that changes" "$out"
        else
                result ok "policy has no variable that changes"
        fi
fi

echo "1..$n"
