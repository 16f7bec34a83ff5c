# shellcheck shell=bash
# What deploy-axon.sh needs of the system it runs on: a release that is known, packages, a compiler. It has `fail`,
# `say`, `have`, and `repo`.

# Sets system, the name for messages.
check_system() {
    local id like version least
    # shellcheck source=/dev/null
    { read -r id && read -r version && read -r like && read -r system; } < <(
        . /etc/os-release
        printf '%s\n' "${ID-}" "${VERSION_ID-}" "${ID_LIKE-}" "${PRETTY_NAME-this system}"
    ) || fail 'there is no /etc/os-release to tell what system this is; Axon is deployed on Debian 12, Ubuntu 22.04 or later.'
    case $id in
        debian) least=12 ;;
        ubuntu) least=22.04 ;;
        *)
            [[ " $like " == *' debian '* || " $like " == *' ubuntu '* ]] ||
                fail "$system is neither Debian nor Ubuntu: install by hand, docs/operations.md tells how."
            say "$system is not known here; trying what is right for Debian"
            return
            ;;
    esac
    # Debian's next release has no number.
    if [[ -n $version ]] && ! printf '%s\n' "$least" "$version" | sort -V -C; then
        fail "$system is too old: Debian 12, Ubuntu 22.04 or later is needed."
    fi
}

# take_lock FILE: until this process ends, on descriptor 9.
take_lock() {
    exec 9>"$1"
    flock --nonblock 9 || fail "another deploy-axon.sh is running, or something that one has begun. Wait for its end:$(lock_holders "$1")"
}

# lock_holders FILE: a line for each process that has it open, but this one.
lock_holders() {
    local descriptor pid
    # This one's own would be among them.
    exec 9>&-
    for descriptor in /proc/[0-9]*/fd/9; do
        pid=${descriptor#/proc/} pid=${pid%%/*}
        if [[ $pid != "$$" && $(readlink -- "$descriptor") == "$1" ]]; then
            printf '\n  process %s: %s' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c 1-100)"
        fi
    done
}

# A fresh server is often busy with its own updates: that is waited for.
apt_install() {
    local apt=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -o DPkg::Lock::Timeout=300)
    say "Installing $*"
    # The second time with fresh lists. Whether it worked is asked of the system: the exit code also tells of services
    # that could not start.
    if ! "${apt[@]}" install -y --no-install-recommends "$@"; then
        "${apt[@]}" update || true
        "${apt[@]}" install -y --no-install-recommends "$@" || true
    fi
    hash -r
}

# Sets binary. Built as whom the checkout belongs to, so that nothing in it becomes root's.
build() {
    local owner home target=${CARGO_TARGET_DIR:-$repo/target} as=()
    owner=$(stat -c %U -- "$repo")
    home=${HOME-/root}
    if [[ $owner == "${SUDO_USER-}" && $owner != root ]]; then
        home=$(getent passwd "$owner" | cut -d: -f6)
        as=(runuser -u "$owner" --)
    fi
    local search=${CARGO_HOME:-$home/.cargo}/bin:$PATH
    PATH=$search type -P cargo >/dev/null ||
        fail "cargo, which builds Axon, is missing. Rust's own installer puts it into your home folder; type:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh
Or build on another machine of the same system, copy target/release/axon here, and add: --binary axon"
    [[ $target == /* ]] || target=$PWD/$target
    say 'Building Axon (the first time takes some minutes)'
    local cargo=("${as[@]}" env HOME="$home" PATH="$search" CARGO_TARGET_DIR="$target" cargo build --release --locked)
    # Not with the lock: what cargo leaves running, such as a cache of a compiler, would keep it.
    if ! (cd -- "$repo" && "${cargo[@]}" 9>&-); then
        # On a fresh system nothing has installed the linker.
        have cc && fail "the build failed; cargo's messages are above. Nothing has changed."
        apt_install gcc libc6-dev
        (cd -- "$repo" && "${cargo[@]}" 9>&-) || fail "the build failed; cargo's messages are above. Nothing has changed."
    fi
    binary=$target/release/axon
    [[ -f $binary ]] || fail "cargo built no '$binary'; is build.target set in a cargo configuration?"
}

