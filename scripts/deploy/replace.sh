# shellcheck shell=bash
# Several files replaced as if at once. Each is prepared beside its place, where a full disk costs nothing; `swap`
# writes down what it is about to do and renames all of them into place; then `confirm` makes it final, or `unswap` puts
# back what was there, if need be in another process that has `read_record`. deploy-axon.sh reads this file; it has
# `fail`, `tell`, and `dry_run`, which is not empty if nothing is to be done.

# Each becomes what lies beside it under the name `fresh` gives, or goes if there is nothing.
targets=()
# Of the one with the same number: whether it was there before, and the identity of what it becomes.
existed=() becomes=()
# Not empty from the first that may have been replaced until all are confirmed or put back.
swapping=''
# What must survive this process, should it be killed: see `write_record`. `remembered` are lines of the caller's.
record=/var/lib/axon-deploy/unfinished
remembered=()

fresh() { printf '%s/.%s.deploy-new' "${1%/*}" "${1##*/}"; }
former() { printf '%s/.%s.deploy-old' "${1%/*}" "${1##*/}"; }
is_there() { [[ -e $1 || -L $1 ]]; }

# What tells a file or link from another one in its place, in one word.
identity() {
    if [[ -L $1 ]]; then
        printf 'link:%s' "$(readlink -- "$1" | base64 -w 0)"
    elif [[ -e $1 ]]; then
        sha256sum <"$1" | cut -d ' ' -f 1
    else
        printf 'nothing'
    fi
}

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

# One line of the caller's each, then one for each target: "file EXISTED BECOMES TARGET".
write_record() {
    local index
    # shellcheck disable=SC2015 # if any of it fails
    mkdir -p -- "${record%/*}" && {
        for index in "${!remembered[@]}"; do
            printf '%s\n' "${remembered[index]}"
        done
        for index in "${!targets[@]}"; do
            printf 'file %s %s %s\n' "${existed[index]}" "${becomes[index]}" "${targets[index]}"
        done
    } >"$record.new" && sync -- "$record.new" && mv -fT -- "$record.new" "$record" && sync -- "${record%/*}" ||
        fail "'$record' cannot be written; nothing has changed."
}

# What another process was about to do, to be undone with `unswap`.
read_record() {
    local kind was new target
    targets=() existed=() becomes=() remembered=()
    while read -r kind was new target; do
        if [[ $kind == file ]]; then
            targets+=("$target") existed+=("$was") becomes+=("$new")
        else
            remembered+=("$kind${was:+ $was}${new:+ $new}${target:+ $target}")
        fi
    done <"$record"
    swapping=yes
}

# Everything that is prepared, if only nothing: the record is of more than files.
swap() {
    local target index
    existed=() becomes=()
    for index in "${!targets[@]}"; do
        target=${targets[index]}
        existed[index]=no becomes[index]=$(identity "$(fresh "$target")")
        if is_there "$target"; then
            existed[index]=yes
            rm -f -- "$(former "$target")"
            # A second name: it takes no space, and the first one never ceases to be.
            if [[ -L $target ]]; then
                cp -P -- "$target" "$(former "$target")"
            else
                ln -- "$target" "$(former "$target")"
            fi
        fi
    done
    write_record
    swapping=yes
    for target in "${targets[@]}"; do
        if is_there "$(fresh "$target")"; then
            mv -fT -- "$(fresh "$target")" "$target"
        else
            rm -f -- "$target"
        fi
        sync -- "${target%/*}"
    done
}

# In reverse. May be done again where it was stopped half way; the record stays until the caller, who has more to put
# back, calls `confirm`. Fails where something could not be put back.
unswap() {
    local target index now result=0
    for ((index = ${#targets[@]} - 1; index >= 0; index--)); do
        target=${targets[index]}
        now=$(identity "$target")
        if [[ $now != "${becomes[index]}" ]]; then
            # It was not yet swapped, or is back already; or somebody has changed it since, and then it is theirs.
            [[ ${existed[index]} == no || ! -e $(former "$target") || $now == $(identity "$(former "$target")") ]] ||
                tell 'keep yours' "$target"
        elif [[ ${existed[index]} == no ]]; then
            rm -f -- "$target" || result=1
        elif is_there "$(former "$target")"; then
            mv -fT -- "$(former "$target")" "$target" || result=1
        fi
        [[ ! -d ${target%/*} ]] || sync -- "${target%/*}"
    done
    return "$result"
}

# As it is now, so it stays.
confirm() {
    local target
    # From here on nothing is undone.
    rm -f -- "$record"
    for target in "${targets[@]}"; do
        rm -f -- "$(former "$target")"
    done
    # shellcheck disable=SC2034 # deploy-axon.sh reads it
    existed=() becomes=() remembered=() swapping=''
}

# drop_leftovers TARGET...: what was prepared beside them and not used, and where there is nothing to undo any more, what
# would have been put back.
drop_leftovers() {
    local target
    for target; do
        rm -f -- "$(fresh "$target")"
        [[ -e $record ]] || rm -f -- "$(former "$target")"
    done
    rm -f -- "$record.new"
}
