#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The manual and the completion say what the programs say: every verb, option, key, term, word, D-Bus name and record
# member that the tables (or, for D-Bus and records, the source) have is in its page.

setup() {
        build=${TOP_BUILDDIR:?TOP_BUILDDIR is not set (make check sets it)}
        src=${TOP_SRCDIR:-$build}
        D=$(mktemp -d "${TMPDIR:-/tmp}/qsched-man.XXXXXX")
        export LC_ALL=C.UTF-8
}

teardown() {
        rm -rf "$D"
}

# Reads names; each must be in the page as a whole word of a line that begins with one of the macros for names.
in_page() { # page
        local name missing=''
        while read -r name; do
                [ -n "$name" ] || continue
                grep -Eq "^\.(It|Cm|Sy|Op|Fl|Ic|Fn|Li|Nm|Pa|Er)( .*)?[ \"(]$(sed 's/[][().*^$+?{|\\]/\\&/g' <<<"$name")([ =\",(]|$)" "$src/man/$1" || missing="$missing $name"
        done
        [ -z "$missing" ] || { echo "missing in $1:$missing"; return 1; }
}

tables() { # kind column
        "$build/qschedctl" --dump-tables | awk -F'\t' -v kind="$1" -v column="$2" '$1 == kind { print $column }'
}

@test "the lists in the pages are what man/update makes of the tables" {
        cp "$src"/man/*.[158] "$D"
        bash "$src/man/update" "$build" "$D" # when this differs: make update-man
        for page in "$src"/man/*.[158]; do
                diff -u "$page" "$D/${page##*/}"
        done
}

@test "a list that is out of date is noticed" {
        mkdir "$D/man" "$D/out"
        cp "$src"/man/update "$src"/man/*.[158] "$D/man"
        sed -i 's/^\.It Fl -seed.*/.It Fl -sead/' "$D/man/qschedctl.1"
        bash "$D/man/update" "$build" "$D/out"
        run diff -q "$D/man/qschedctl.1" "$D/out/qschedctl.1"
        [ "$status" -eq 1 ]
}

@test "mandoc finds nothing to warn of" {
        command -v mandoc >/dev/null || skip "mandoc is not installed"
        for page in "$src"/man/*.[158]; do
                run mandoc -Tlint -Wwarning "$page"
                echo "$output"
                [ "$status" -eq 0 ]
        done
}

@test "qschedctl(1) has every verb, option, solver and exit code" {
        tables verb 2 | in_page qschedctl.1
        tables option 2 | sed 's/^/-/' | in_page qschedctl.1
        tables solver 2 | in_page qschedctl.1
        tables exit 2 | in_page qschedctl.1
        [ "$(tables verb 2 | wc -l)" -ge 9 ]
}

@test "--help has every verb, and that of a verb each of its options" {
        run "$build/qschedctl" --help
        [ "$status" -eq 0 ]
        for verb in $(tables verb 2); do
                grep -Eq "^  $verb +[A-Z]" <<<"$output"
                help=$("$build/qschedctl" "$verb" --help)
                for option in $("$build/qschedctl" --dump-tables | awk -F'\t' -v v="$verb" '$1 == "verb-option" && $2 == v { print $3 }'); do
                        grep -Eq -- "--$option(=| |$)" <<<"$help"
                done
        done
}

@test "help fits 80 columns" {
        for verb in '' $(tables verb 2); do
                # shellcheck disable=SC2086 # none is no word
                run "$build/qschedctl" $verb --help
                [ "$(awk 'length > 80' <<<"$output")" = "" ]
        done
}

@test "qsched.instance(5) has every format" {
        tables format 2 | in_page qsched.instance.5
        [ "$(tables format 2 | wc -l)" -ge 6 ]
}

@test "qsched.job(5) has every key and way to match" {
        tables job-key 3 | in_page qsched.job.5
        tables match 2 | in_page qsched.job.5
        [ "$(tables job-key 3 | wc -l)" -ge 16 ]
}

@test "qschedd.conf(5) has every key, term, kind, link type and health" {
        "$build/qschedd" --print-config | sed -n 's/^#\([A-Za-z]*\)=.*/\1/p; s/^#   \([A-Za-z]*\)=.*/\1/p' >"$D/keys"
        [ "$(wc -l <"$D/keys")" -ge 30 ]
        in_page qschedd.conf.5 <"$D/keys"
        tables term 2 | in_page qschedd.conf.5
        tables kind 2 | in_page qschedd.conf.5
        tables link 2 | in_page qschedd.conf.5
        tables health 2 | in_page qschedd.conf.5
}

@test "qschedd(8) has every option" {
        "$build/qschedd" --help | grep -Eo -- '--[a-z-]+ ' | sort -u | tr -d ' ' | sed 's/^-//' | in_page qschedd.8
}

@test "org.qsched1(5) has every method, property, signal, object, action and error" {
        cat "$src"/daemon/bus*.c "$src"/daemon/authority.c >"$D/bus"
        {
                sed -n 's/^ *X("\([A-Za-z]*\)".*/\1/p' "$D/bus"
                grep -Eo 'SD_BUS_(PROPERTY|WRITABLE_PROPERTY|SIGNAL[A-Z_]*|METHOD[A-Z_]*)\("[A-Za-z]+"' "$D/bus" | cut -d'"' -f2
                grep -Eho '"org\.qsched1\.(Error\.)?[A-Z][A-Za-z]*"' "$D/bus" | tr -d '"'
        } | sort -u >"$D/names"
        [ "$(wc -l <"$D/names")" -ge 35 ]
        in_page org.qsched1.5 <"$D/names"
        while read -r action; do
                grep -q "^Action: $action\.$" "$src/man/org.qsched1.5"
        done < <(grep -Eho '<action id="[^"]*' "$src/units/org.qsched1.policy" | cut -d'"' -f2)
}

@test "qsched.record(5) has every member" {
        grep -Eho '^ *\{ "[a-z_]+",' "$src"/policy/record-write.c | cut -d'"' -f2 | sort -u >"$D/members"
        [ "$(wc -l <"$D/members")" -ge 30 ]
        in_page qsched.record.5 <"$D/members"
}

complete_words() { # words... (the last is what is being typed)
        bash -c '
                PATH=$1:$PATH; shift
                source "$1"; shift
                COMP_WORDS=(qschedctl "$@") COMP_CWORD=$#
                _qschedctl
                printf "%s\n" "${COMPREPLY[@]}"' - "$build" "$src/units/completion/qschedctl" "$@"
}

@test "completion: verbs" {
        [ "$(complete_words '' | sort)" = "$(tables verb 2 | sort)" ]
        [ "$(complete_words exp)" = explain ]
}

@test "completion: options of a verb, values of options" {
        complete_words plan --see | grep -qx -- --seed
        [ -z "$(complete_words status --see)" ]
        [ "$(complete_words plan --solver '' | sort)" = "$(tables solver 2 | sort)" ]
        [ "$(complete_words plan --solver = ex)" = exact ]
        complete_words run --device asc | grep -qx ascend
        touch "$D/some.xml"
        [ "$(complete_words plan --machine "$D/so")" = "$D/some.xml" ]
}
