# shellcheck shell=bash disable=SC2154 # deploy-axon.sh sets them
# Removing Axon: all that deploy-axon.sh has put there and nobody has edited. It has `say`, where things go, replace.sh
# and services.sh. Where it is stopped half way, it may be done again.

# unedited NAME TARGET: whether it is still as it came.
unedited() { [[ -e $2 ]] && cmp -s -- "$state/$1" "$2"; }

# nginx's site, and its own default one back.
prepare_removal_from_nginx() {
    prepare_removal "$link"
    if unedited site "$site"; then prepare_removal "$site"; fi
    if [[ -e $state/default-site && -d ${default_site%/*} ]] && ! is_there "$default_site"; then
        prepare_link "$(<"$state/default-site")" "$default_site"
    fi
}

# The services and the rest. What tells whether something was edited goes last.
prepare_removal_of_axon() {
    local target
    if unedited axon.env "$settings"; then prepare_removal "$settings"; fi
    if unedited logrotate "$logrotate"; then prepare_removal "$logrotate"; fi
    for target in "$units"/axon.{service,socket}; do
        is_masked "$target" || prepare_removal "$target"
    done
    for target in "$sysusers" "$program" "$state"/{axon.env,logrotate,site,options,default-site}; do
        prepare_removal "$target"
    done
}

remove_all() {
    local target going kept=()
    say "Removing Axon${dry_run:+ (a dry run)}"
    prepare_removal_from_nginx
    going=("${targets[@]}")
    # nginx first, so that it asks nobody who is gone.
    if [[ -z $dry_run ]] && ((${#targets[@]})); then
        ! have nginx || check_nginx
        remember_units
        swap
        ! is_active nginx.service || systemctl reload nginx.service || fail_with_logs nginx.service 'nginx does not take its configuration.'
        confirm
    fi
    targets=()

    prepare_removal_of_axon
    going+=("${targets[@]}")
    if [[ -z $dry_run ]]; then
        for target in axon.service axon.socket; do
            ! changes "$units/$target" || systemctl --quiet disable --now "$target"
        done
        ((${#targets[@]} == 0)) || rm -f -- "${targets[@]}"
        rmdir -- "$state" "${settings%/*}" 2>/dev/null || true
        # Also where one that was stopped has removed the units and no more.
        systemctl daemon-reload
    fi
    ((${#going[@]})) || say 'There is nothing to remove'
    targets=("${going[@]}")
    for target in "$site" "$settings" "$logrotate" "${content%/*}" /var/lib/axon /var/log/axon; do
        if [[ -e $target ]] && ! changes "$target"; then kept+=("$target"); fi
    done
    targets=()
    if ((${#kept[@]})); then
        say 'Left, because it is yours. To remove it as well, and its user, type:'
        printf '  rm -rf%s\n  userdel _axon\n' "$(printf ' %q' "${kept[@]}")"
    fi
}
