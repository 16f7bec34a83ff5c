# shellcheck shell=bash disable=SC2034,SC2154 # the others use and set them
# What the files beside this one have in common. They run inside the system, as root, each in a shell of its own.
set -Eeuo pipefail
trap 'printf "wrong: line %d of %s: %s\n" "$LINENO" "${BASH_SOURCE[0]##*/}" "$BASH_COMMAND" >&2' ERR

: "${CHECKOUT:?the checkout, in the system}"
# TOOLCHAIN is not empty where cargo is at hand.
deploy=$CHECKOUT/scripts/deploy-axon.sh
built=$CARGO_TARGET_DIR/release/axon
program=/usr/local/bin/axon
content=/var/www/axon-api/examples
# What deploy-axon.sh says.
said=/tmp/said

wrong() {
    printf 'wrong: %s\n' "$*" >&2
    exit 1
}

# check WHAT COMMAND...: that it succeeds.
check() {
    local what=$1
    shift
    "$@" || wrong "$what: '$*' failed with $?"
    printf '   %s\n' "$what"
}

# equal WHAT FOUND EXPECTED
equal() {
    [[ $2 == "$3" ]] || wrong "$1: found '$2', not '$3'"
    printf '   %s\n' "$1"
}

# run_deploy EXIT-CODE ARGUMENT...: that it ends with this code; what it said is in $said.
run_deploy() {
    local expected=$1 code=0
    shift
    "$deploy" "$@" >"$said" 2>&1 || code=$?
    ((code == expected)) || {
        cat "$said" >&2
        wrong "deploy-axon.sh $* exited with $code, not $expected"
    }
}

copy=/root/copy
# fresh_copy: of the checkout, to be broken; from then on that is what is deployed.
fresh_copy() {
    rm -rf "$copy"
    mkdir "$copy"
    cp -a "$CHECKOUT/." "$copy"
    deploy=$copy/scripts/deploy-axon.sh
}

# shell_program NAME LINE...: a shell script in the place of Axon.
shell_program() {
    printf '%s\n' '#!/bin/sh' "${@:2}" >"/tmp/$1"
    chmod +x "/tmp/$1"
}

# has_said WHAT TEXT
has_said() {
    grep -qF -- "$2" "$said" || {
        cat "$said" >&2
        wrong "$1: deploy-axon.sh does not say '$2'"
    }
    printf '   %s\n' "$1"
}

fetch() { curl -q -sS --max-time 60 "$@"; }

# status URL [OPTION...]: the status alone.
status() { fetch -o /dev/null -w '%{http_code}' "$@"; }

healthy() {
    equal "$1" "$(fetch -w ' %{http_code}' "http://127.0.0.1${2-}/api/health")" '{"status":"available"} 200'
}

# nginx_has_its_own_page WHAT: a reload takes a moment.
nginx_has_its_own_page() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        if [[ $(fetch http://127.0.0.1/) == *'Welcome to nginx'* ]]; then
            printf '   %s\n' "$1"
            return
        fi
        sleep 0.1
    done
    wrong "$1: nginx answers otherwise"
}

property() { systemctl show --property="$2" --value "$1"; }

# What deploying may change: every file it puts anywhere.
files_now() {
    {
        # Not all of them are there.
        find /usr/local/bin /etc/systemd/system /etc/axon /etc/nginx /var/www /var/lib/axon-deploy \
            -printf '%p %y %m %u %g ' \( -type d -printf '\n' -o -printf '%s %T@ %i %l\n' \) 2>/dev/null || true
    } | sort
}

# And when the services were started.
starts_now() {
    property axon.service ExecMainStartTimestampMonotonic
    property axon.socket ActiveEnterTimestampMonotonic
    property nginx.service ExecMainStartTimestampMonotonic
}

# untouched WHAT: nothing was so much as restarted since files and starts were set.
untouched() {
    same "$1: no file has changed" "$files" "$(files_now)"
    same "$1: nothing was started anew" "$starts" "$(starts_now)"
    healthy "$1: it answers"
}

# restored WHAT: the files are the very same, and it answers again.
restored() {
    has_said "$1: it says so" 'What was there before answers again on port 80'
    same "$1: every file is as it was" "$files" "$(files_now)"
    equal "$1: it runs the former program" "$(readlink "/proc/$(property axon.service MainPID)/exe")" "$program"
    healthy "$1: it answers"
    starts=$(starts_now)
}

# What the system has of Axon, but for what was brought into it to be tried, and logs.
traces() {
    find /etc /usr /var -xdev \( -path "$CHECKOUT" -o -path "$CARGO_TARGET_DIR" -o -path "$CARGO_HOME" -o -path "$RUSTUP_HOME" \
        -o -path /var/log \) -prune -o \( -name '*axon*' -o -name '*.deploy-*' \) -print |
        awk -v checkout="$CHECKOUT/" 'index(checkout, $0 "/") != 1' | sort
}

# same WHAT BEFORE AFTER
same() {
    [[ $2 == "$3" ]] || {
        diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") >&2 || true
        wrong "$1: it has changed"
    }
    printf '   %s\n' "$1"
}

# bundle_is_whole WHAT URL FILE...: that it answers with these files of the content, each byte for byte.
bundle_is_whole() {
    local what=$1 url=$2 query='' file number=0 got=/tmp/bundle
    shift 2
    for file; do
        query+="${query:+&}file$((number += 1))=$file"
    done
    rm -rf "$got"
    mkdir "$got"
    fetch --fail "$url/api/stream-files?$query" | "$built" unpack -C "$got" 2>"$said" || {
        cat "$said" >&2
        wrong "$what: no whole bundle"
    }
    for file; do
        cmp "$content/$file" "$got/$file" || wrong "$what: $file"
    done
    equal "$what" "$(find "$got" -type f | wc -l)" "$#"
}

# under_load COMMAND...: while 16 clients ask for a bundle without a pause; that none of them saw a failure.
under_load() {
    local load code=0 report=/tmp/wrk
    # The port, because there is no /etc/services here to know it from. The time is a limit, should nobody end it.
    wrk -t 1 -c 16 -d 120s --timeout 30s 'http://127.0.0.1:80/api/stream-files?file1=app.js&file2=style.css' >"$report" 2>&1 &
    load=$!
    "$@" || code=$?
    # Interrupted, it tells what it has seen so far.
    kill -INT "$load" || {
        cat "$report" >&2
        wrong 'the load ended by itself'
    }
    wait "$load" || true
    ((code == 0)) || wrong "under load: '$*' failed with $code"
    if grep -E 'Non-2xx|Socket errors' "$report" || ! grep -q 'requests in' "$report"; then
        cat "$report" >&2
        wrong "under load, '$*': requests failed"
    fi
    printf '   no request failed of %s\n' "$(awk '/requests in/ { print $1 }' "$report")"
}
