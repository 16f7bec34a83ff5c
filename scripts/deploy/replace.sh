# shellcheck shell=bash
# Several files replaced as if at once. Each is prepared beside its place, where a full disk costs nothing; `swap`
# renames all of them into place; then `confirm` makes it final, or `unswap` puts back what was there. deploy-axon.sh
# reads this file; it has `fail`, `tell`, and `dry_run`, which is not empty if nothing is to be done.

# Each becomes what lies beside it under the name `fresh` gives, or goes if there is nothing.
targets=()
# Whether the one with the same number was there before.
existed=()
# How many have been swapped, and whether some have been at all.
swapped=0 swapping=''

fresh() { printf '%s/.%s.deploy-new' "${1%/*}" "${1##*/}"; }
former() { printf '%s/.%s.deploy-old' "${1%/*}" "${1##*/}"; }
is_there() { [[ -e $1 || -L $1 ]]; }

# changes TARGET: whether it is among those that are prepared.
changes() {
    local target
    for target in "${targets[@]}"; do
        [[ $target != "$1" ]] || return 0
    done
    return 1
}

# prepare_file SOURCE TARGET MODE
prepare_file() {
    local new
    if [[ -f $2 && ! -L $2 ]] && cmp -s -- "$1" "$2" && [[ $(stat -c %a -- "$2") == "$3" ]]; then
        tell 'as it is' "$2"
        return
    fi
    if is_there "$2"; then tell replace "$2"; else tell install "$2"; fi
    targets+=("$2")
    [[ -z $dry_run ]] || return 0
    new=$(fresh "$2")
    # On disk before its name counts: after a power cut there is the old file or the new one, never an empty one.
    { mkdir -p -- "${2%/*}" && rm -f -- "$new" && install -m "$3" -- "$1" "$new" && sync -- "$new"; } ||
        fail "'$new' cannot be written; nothing has changed."
}

# prepare_link DESTINATION TARGET
prepare_link() {
    if [[ -L $2 && $(readlink -- "$2") == "$1" ]]; then
        tell 'as it is' "$2"
        return
    fi
    tell link "$2"
    targets+=("$2")
    [[ -z $dry_run ]] || return 0
    ln -sfn -- "$1" "$(fresh "$2")" || fail "no link can be made in '${2%/*}'; nothing has changed."
}

# prepare_removal TARGET
prepare_removal() {
    is_there "$1" || return 0
    tell remove "$1"
    targets+=("$1")
}

# Everything that is prepared. Where it fails, or is told to stop, the rest of `targets` is as it was.
swap() {
    local target
    swapping=yes
    for ((swapped = 0; swapped < ${#targets[@]}; swapped++)); do
        target=${targets[swapped]}
        existed[swapped]=''
        if [[ -L $target ]]; then
            existed[swapped]=yes
            cp -P --remove-destination -- "$target" "$(former "$target")"
        elif [[ -e $target ]]; then
            existed[swapped]=yes
            # A second name: it takes no space, and the first one never ceases to be.
            ln -f -- "$target" "$(former "$target")"
        fi
        if is_there "$(fresh "$target")"; then
            mv -fT -- "$(fresh "$target")" "$target"
        else
            rm -f -- "$target"
        fi
        sync -- "${target%/*}"
    done
}

# In reverse, and also the one that it was about to swap.
unswap() {
    local target index
    for ((index = ${#existed[@]} - 1; index >= 0; index--)); do
        target=${targets[index]}
        if [[ -z ${existed[index]} ]]; then
            rm -f -- "$target"
        elif is_there "$(former "$target")"; then
            mv -fT -- "$(former "$target")" "$target"
        fi
        sync -- "${target%/*}"
    done
    existed=() swapped=0 swapping=''
}

# shellcheck disable=SC2034 # deploy-axon.sh reads swapping
confirm() {
    local target
    for target in "${targets[@]}"; do
        rm -f -- "$(former "$target")"
    done
    existed=() swapped=0 swapping=''
}

# What was prepared and not used.
drop_fresh() {
    local target
    for target in "${targets[@]}"; do
        rm -f -- "$(fresh "$target")"
    done
}

# drop_leftovers TARGET...: what one that was killed left beside them.
drop_leftovers() {
    local target
    for target; do
        rm -f -- "$(fresh "$target")" "$(former "$target")"
    done
}
