# shellcheck shell=bash disable=SC2154 # deploy-axon.sh sets them
# The services that deploy-axon.sh starts and renews, whether they answer, and how all of it is put back. It has `fail`,
# `say` and `tell`, replace.sh, where things go, and `port`, `names` and `work`.

# is_masked UNIT-FILE
is_masked() { [[ -L $1 && $(readlink -- "$1") == /dev/null ]]; }
is_active() { systemctl --quiet is-active "$1"; }

# What of them the files in `targets` concern.
touches_axon() {
    changes "$program" || changes "$units/axon.service" || changes "$units/axon.socket" || changes "$settings"
}
touches_nginx() {
    local target
    for target in "${targets[@]}"; do
        [[ $target != /etc/nginx/* ]] || return 0
    done
    return 1
}

# Of the last deploy: sets old_port and old_names.
read_options() {
    old_port=80 old_names=''
    if [[ -r $state/options ]]; then
        { IFS= read -r old_port && IFS= read -r old_names; } <"$state/options" || true
    fi
}

# ---- nginx --------------------------------------------------------------------------------------------------

# nginx's own judgement of its configuration as it will be, before it is: in a view of the file system of which nobody
# else knows, where a changed copy lies over /etc/nginx.
check_nginx() {
    local copy=$work/nginx target place new
    rm -rf -- "$copy"
    cp -a -- /etc/nginx "$copy"
    for target in "${targets[@]}"; do
        [[ $target == /etc/nginx/* ]] || continue
        place=$copy/${target#/etc/nginx/} new=$(fresh "$target")
        rm -f -- "$place"
        if is_there "$new"; then
            cp -P -- "$new" "$place"
        fi
    done
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount -- sh -c 'mount --bind "$1" /etc/nginx && exec nginx -T' sh "$copy" >"$work/nginx.all" 2>"$work/nginx.said" || {
        cat -- "$work/nginx.said" >&2
        fail "nginx refuses its new configuration, for the reason above; nothing has changed."
    }
}

# Gently: what it answers just now is finished by the processes that began it.
renew_nginx() {
    if is_active nginx.service; then
        systemctl reload nginx.service
    else
        systemctl start nginx.service
    fi
}

# ---- Axon ---------------------------------------------------------------------------------------------------

start_axon() {
    systemd-sysusers "${sysusers##*/}" && systemctl daemon-reload || return
    if changes "$units/axon.socket" || ! is_active axon.socket; then
        # It cannot be made anew while the service has it.
        systemctl stop axon.service axon.socket || return
    fi
    systemctl --quiet enable axon.socket axon.service && systemctl start axon.socket || return
    # Waits until it answers, or has failed to.
    if touches_axon; then
        systemctl restart axon.service
    else
        systemctl start axon.service
    fi
}

# Through nginx, as a client would ask; where an edited site sends it on to TLS, there. Sets unhealthy, the answer.
unhealthy=''
healthy() {
    local host=${names%% *} answer
    host=${host/#\*/axon}
    answer=$(curl -q --noproxy '*' -sSkL --max-redirs 3 --connect-to '::127.0.0.1:' --max-time 5 \
        -w '\n%{http_code}' "http://${host:-127.0.0.1}:$port/api/health" 2>&1) || true
    # A bare return would repeat, within clean_up, the status that brought it there.
    [[ $answer == *'"status":"available"'*$'\n'200 ]] && return 0
    unhealthy=${answer//$'\n'/ }
    return 1
}

# After a reload of nginx twice, a second apart: for a moment it answers with what was there before.
wait_until_healthy() {
    local end=$((SECONDS + 10))
    while ((SECONDS < end)); do
        if healthy && { ! touches_nginx || { sleep 1 && healthy; }; }; then
            return 0
        fi
        sleep 0.25
    done
    return 1
}

# fail_with_logs UNIT MESSAGE: why, in its own words; the rest is for clean_up.
fail_with_logs() {
    journalctl --no-pager -q -u "$1" -n 15 >&2 || true
    fail "$2"
}

# ---- And back -----------------------------------------------------------------------------------------------

# How they are just now, for the record.
remember_units() {
    local unit enabled active
    for unit in axon.socket axon.service nginx.service; do
        enabled=$(systemctl is-enabled "$unit" 2>/dev/null) || true
        active=stopped
        ! is_active "$unit" || active=active
        remembered+=("unit $unit ${enabled:-missing} $active")
    done
}

# Everything of the record. May be done again where it was stopped half way.
take_back() {
    # `healthy` asks where those before have answered.
    local line kind name enabled active made='' port names
    local -A was_enabled=() was_active=()
    say 'Putting everything back as it was' >&2
    for line in "${remembered[@]}"; do
        read -r kind name enabled active <<<"$line"
        case $kind in
            unit) was_enabled[$name]=$enabled was_active[$name]=$active ;;
            made) made=$name ;;
        esac
    done
    if changes "$units/axon.socket" || [[ ${was_active[axon.socket]-} == stopped ]]; then
        systemctl stop axon.service axon.socket 2>/dev/null
    elif [[ ${was_active[axon.service]-} == stopped ]]; then
        systemctl stop axon.service
    fi
    # The service takes the socket with it, which is enabled anew below.
    for name in axon.service axon.socket; do
        [[ ${was_enabled[$name]-enabled} == enabled ]] || systemctl --quiet disable "$name" 2>/dev/null
    done
    unswap || {
        say "Not everything could be put back; '$record' tells what. Make room or mend the disk, then run this again." >&2
        return 1
    }
    # The samples, unless somebody has put something of their own there meanwhile.
    if [[ -n $made && -e $content ]] && diff -rq -- "$repo/examples/site" "$content" >/dev/null; then
        rm -rf -- "$content"
        rmdir -- "$made" 2>/dev/null
    fi
    systemctl daemon-reload
    [[ ${was_enabled[axon.socket]-} != enabled ]] || systemctl --quiet enable axon.socket
    [[ ${was_active[axon.socket]-} != active ]] || systemctl start axon.socket
    if [[ ${was_active[axon.service]-} == active ]]; then
        if touches_axon; then systemctl restart axon.service; else systemctl start axon.service; fi
    fi
    if [[ ${was_active[nginx.service]-} == stopped ]]; then
        systemctl stop nginx.service
    elif touches_nginx || ! is_active nginx.service; then
        nginx -t -q && renew_nginx
    fi
    # One that failed to start was not failed before.
    for name in "${!was_active[@]}"; do
        [[ ${was_active[$name]} == active ]] || systemctl reset-failed "$name" 2>/dev/null
    done
    confirm
    rmdir -- "$state" "${settings%/*}" 2>/dev/null
    if [[ ${was_active[axon.service]-} == active && ${was_active[nginx.service]-} == active ]]; then
        read_options
        port=$old_port names=$old_names
        if wait_until_healthy; then
            say "What was there before answers again on port $port" >&2
        else
            say "What was there before does not answer on port $port either: $unhealthy" >&2
        fi
    fi
    return 0
}

# What another deploy-axon.sh, which was killed, has left undone.
finish_killed() {
    if [[ -e $record && -n $dry_run ]]; then
        say 'The last run was stopped half way. This one would first put back what that has replaced.'
        return
    fi
    if [[ -e $record ]]; then
        say 'The last run was stopped half way'
        read_record
        take_back || exit 1
        targets=()
    fi
    [[ -n $dry_run ]] || drop_leftovers "$program" "$units"/axon.{socket,service} "$sysusers" "$settings" "$logrotate" \
        "$site" "$link" "$default_site" "$state"/{axon.env,logrotate,site,options,default-site}
}
