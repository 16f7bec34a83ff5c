#!/usr/bin/env bash
# Axon behind nginx on this server, installed or brought up to date: see `deploy-axon.sh --help`.
set -euo pipefail
# What is made here is to be read by nginx and Axon, whatever root's own habit is.
umask 022

here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
repo=${here%/*}

usage() {
    cat <<'TEXT'
Usage: deploy-axon.sh [--binary FILE] [--port N] [--server-name NAMES] [--dry-run]
       deploy-axon.sh --uninstall [--dry-run]

Install Axon behind nginx on Debian 12, Ubuntu 22.04 or later, or bring it up to
date. Run it as root, from a checkout. What is there already and right is left
alone, so it may be run as often as you like.

  --binary FILE        install this program (default: build one with cargo)
  --port N             where nginx listens (default: as last time, else 80)
  --server-name NAMES  answer to these host names only, parted by spaces; "" is
                       any name (default: as last time, else any)
  --dry-run            tell what would be done, and do nothing
  --uninstall          remove it again; content, settings that you have edited,
                       the secret and the logs stay
  --help               this text

What it puts where:
  /usr/local/bin/axon                 the program
  /etc/systemd/system/axon.socket     /run/axon/axon.sock, open to nginx's group
  /etc/systemd/system/axon.service    the sandboxed service
  /etc/sysusers.d/axon.conf           its user, _axon
  /etc/axon/axon.env                  its settings
  /etc/logrotate.d/axon               for a log file, should you name one
  /etc/nginx/sites-available/axon     nginx's site, with its link in sites-enabled
  /var/www/axon-api/examples          the content: a few samples, if it is missing
  /var/lib/axon-deploy                those of them that you may edit, as they came

Settings, a site or a logrotate file that you have edited are kept; what would
have replaced them lies in /var/lib/axon-deploy. nginx and curl are installed
where missing.
nginx's default site is disabled only where it would take Axon's requests, and
only if it is still as it came.

All is tried before anything is replaced: the program, the units
(systemd-analyze verify), nginx's configuration as it will be (nginx -t). Then
the files are renamed into place, Axon is restarted, which fails no request as
long as axon.socket stays the same, and /api/health is asked through nginx. If
it does not answer, everything is put back as it was. A run that is killed is
put back by the next one. A service that was stopped, or nginx, is started; what
is put back is stopped again.

Exit: 0 it answers, 1 it failed and nothing has changed, 2 wrong usage.
TEXT
}

if [[ -t 1 && -z ${NO_COLOR-} ]]; then
    bold=$'\e[1m' plain=$'\e[0m'
else
    bold='' plain=''
fi

say() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
tell() { printf '  %-11s %s\n' "$1" "$2"; }

fail() {
    printf 'deploy-axon.sh: %s\n' "$*" >&2
    exit 1
}

wrong_usage() {
    printf 'deploy-axon.sh: %s\n' "$*" >&2
    exit 2
}

# ---- What was asked for -------------------------------------------------------------------------------------

arguments=("$@")
binary='' port='' names='' names_given='' dry_run='' uninstall=''
while (($#)); do
    case $1 in
        --binary=* | --port=* | --server-name=*)
            set -- "${1%%=*}" "${1#*=}" "${@:2}"
            continue
            ;;
        --binary | --port | --server-name)
            (($# > 1)) || wrong_usage "$1 needs a value"
            [[ -n $2 || $1 == --server-name ]] || wrong_usage "$1 is empty"
            case $1 in
                --binary) binary=$2 ;;
                --port) port=$2 ;;
                *) names=$2 names_given=yes ;;
            esac
            shift
            ;;
        --dry-run) dry_run=yes ;;
        --uninstall) uninstall=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) wrong_usage "unknown argument '$1'; there are --binary FILE, --port N, --server-name NAMES, --dry-run, --uninstall and --help" ;;
    esac
    shift
done
# The first of them is asked for its health.
names=${names#"${names%%[! ]*}"}
[[ -z $uninstall || -z $binary$port$names_given ]] || wrong_usage '--uninstall goes with --dry-run only'
[[ -z $binary || -f $binary ]] || wrong_usage "--binary: '$binary' is not a file"

# ---- Where things go ----------------------------------------------------------------------------------------

program=/usr/local/bin/axon
units=/etc/systemd/system
sysusers=/etc/sysusers.d/axon.conf
settings=/etc/axon/axon.env
logrotate=/etc/logrotate.d/axon
site=/etc/nginx/sites-available/axon
link=/etc/nginx/sites-enabled/axon
default_site=/etc/nginx/sites-enabled/default
content=/var/www/axon-api/examples
# What came from here last time, to tell whether it was edited since, and what was asked for then.
state=/var/lib/axon-deploy

# ---- Is this the place? -------------------------------------------------------------------------------------

# A user's PATH on Debian has no /usr/sbin, where nginx is.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
have() { type -P "$1" >/dev/null; }

if ((EUID != 0)); then
    fail "this changes the system, so it must be run as root. Type:
  sudo$(printf ' %q' "$here/deploy-axon.sh" "${arguments[@]}")"
fi
for part in nginx.conf systemd/{axon.socket,axon.service,axon.env,sysusers.conf,logrotate.conf} examples/site scripts/nginx-site scripts/deploy/{replace,services,system,uninstall}.sh; do
    [[ -e $repo/$part ]] || fail "'$repo/$part' is missing. Run this from a whole checkout of Axon, where it lies in scripts/."
done

# shellcheck source=scripts/deploy/system.sh
. "$here/deploy/system.sh"
# shellcheck source=scripts/deploy/replace.sh
. "$here/deploy/replace.sh"
# shellcheck source=scripts/deploy/services.sh
. "$here/deploy/services.sh"
# shellcheck source=scripts/deploy/uninstall.sh
. "$here/deploy/uninstall.sh"

check_system
[[ -d /run/systemd/system ]] || fail 'systemd does not run this machine (a container?): scripts/stack runs Axon without it.'
have apt-get || fail 'there is no apt-get here.'
# shellcheck disable=SC2016 # dpkg-query's own variable
if [[ $(dpkg-query -W -f '${db:Status-Status}' axon-server 2>/dev/null) == installed ]]; then
    fail "the package axon-server is installed here. Bring that up to date with apt-get, or remove it first:
  apt-get remove axon-server"
fi

take_lock /run/lock/axon-deploy.lock

# ---- The end, however it comes ------------------------------------------------------------------------------

work=$(mktemp -d /tmp/axon-deploy.XXXXXX)
samples=${content%/*}/.examples.deploy-new

# shellcheck disable=SC2317 # trap calls it
clean_up() {
    local code=$?
    # Nothing may stop it half way, not even that nobody reads what it says.
    trap '' INT TERM HUP PIPE
    set +e
    [[ -z $swapping ]] || take_back
    [[ -n $dry_run ]] || drop_leftovers "${targets[@]}"
    rm -rf -- "$work" "$samples"
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# ---- What was there -----------------------------------------------------------------------------------------

finish_killed
read_options
# As last time, unless said otherwise.
port=${port:-$old_port}
[[ -n $names_given ]] || names=$old_names

if [[ -n $uninstall ]]; then
    remove_all
    exit 0
fi

for unit in axon.socket axon.service; do
    ! is_masked "$units/$unit" || fail "somebody has seen to it that $unit never starts. If it may again, type:
  systemctl unmask $unit"
done

ipv6=()
[[ -e /proc/net/if_inet6 ]] || ipv6=(--no-ipv6)
"$repo/scripts/nginx-site" --port "$port" --server-name "$names" "${ipv6[@]}" >"$work/site" || exit

# ---- What must be there -------------------------------------------------------------------------------------

missing=()
have nginx || missing+=(nginx)
have curl || missing+=(curl)

if ((${#missing[@]})); then
    if [[ -n $dry_run ]]; then
        tell install "${missing[*]}"
    else
        apt_install "${missing[@]}"
        for name in "${missing[@]}"; do
            have "$name" || fail "apt-get did not install $name; its messages are above."
        done
    fi
fi

if [[ -z $binary && -z $dry_run ]]; then
    build
fi

# ---- Prepare ------------------------------------------------------------------------------------------------

say "Deploying Axon to $system${dry_run:+ (a dry run)}"
if [[ -n $binary ]]; then
    prepare_file "$binary" "$program" 755
else
    tell build "$program"
    targets+=("$program")
fi
prepare_file "$repo/systemd/axon.socket" "$units/axon.socket" 644
prepare_file "$repo/systemd/axon.service" "$units/axon.service" 644
prepare_file "$repo/systemd/sysusers.conf" "$sysusers" 644

# prepare_kept SOURCE NAME TARGET: unless TARGET was edited. Sets is_ours to "", if it was.
prepare_kept() {
    is_ours=yes
    if [[ -e $3 ]] && ! cmp -s -- "$1" "$3" && ! unedited "$2" "$3"; then
        tell 'keep yours' "$3"
        is_ours=''
    else
        prepare_file "$1" "$3" 644
    fi
    prepare_file "$1" "$state/$2" 644
}

prepare_kept "$repo/systemd/axon.env" axon.env "$settings"
prepare_kept "$repo/systemd/logrotate.conf" logrotate "$logrotate"

prepare_kept "$work/site" site "$site"
[[ -n $is_ours || ($port == "$old_port" && $names == "$old_names") ]] ||
    fail "'$site' has been edited, so --port and --server-name are not set there. Change them by hand, or move the file away."
prepare_link "$site" "$link"

# Where it answers to any name on the same port, it would take what is Axon's: whoever asks for the address alone.
if [[ -n $is_ours && -z $names && -e $default_site ]] &&
    grep -Eq "^[[:space:]]*listen[[:space:]]+([^;[:space:]]*:)?$port([;[:space:]])" -- "$default_site"; then
    # shellcheck disable=SC2016 # dpkg-query's own variable
    as_shipped=$(dpkg-query -W -f '${Conffiles}\n' nginx-common 2>/dev/null | awk '$1 == "/etc/nginx/sites-available/default" { print $2 }')
    [[ -L $default_site && $(md5sum <"$default_site") == "$as_shipped  -" ]] ||
        fail "nginx's site '$default_site' answers on port $port and has been edited. Choose: --port N, --server-name NAME, or disable that site
  rm $default_site"
    printf '%s\n' "$(readlink -- "$default_site")" >"$work/default-site"
    prepare_removal "$default_site"
    prepare_file "$work/default-site" "$state/default-site" 644
    say "nginx's default site will be disabled: it answers on port $port. It stays in sites-available."
fi
printf '%s\n%s\n' "$port" "$names" >"$work/options"
prepare_file "$work/options" "$state/options" 644

if [[ -e $content ]]; then
    tell 'as it is' "$content"
else
    tell install "$content"
fi

if [[ -n $dry_run ]]; then
    say 'A dry run: nothing was done, and nothing was tried'
    exit 0
fi

# ---- Try ----------------------------------------------------------------------------------------------------

candidate=$program
! changes "$program" || candidate=$(fresh "$program")
works=yes
version=$("$candidate" --version 2>&1) || works=''
[[ -n $works && $version == axon\ * ]] ||
    fail "'$binary' does not run here: '$binary --version' says '${version:0:300}'. Nothing has changed."

mkdir -- "$work/units"
cp -- "$repo/systemd/axon.socket" "$work/units/"
# The program that is in place may be another one, or none.
sed "s|^ExecStart=$program |ExecStart=$candidate |" "$repo/systemd/axon.service" >"$work/units/axon.service"
grep -q "^ExecStart=$candidate " "$work/units/axon.service" || fail "systemd/axon.service does not start $program."
systemd-analyze --no-pager verify "$work/units/axon.socket" "$work/units/axon.service" ||
    fail 'systemd refuses the units, for the reason above; nothing has changed.'

check_nginx
grep -q "^# configuration file $link:" "$work/nginx.all" ||
    fail "this nginx does not read /etc/nginx/sites-enabled. Put this line into the http block of /etc/nginx/nginx.conf:
  include /etc/nginx/sites-enabled/*;"
if have ss; then
    taken=$(ss -Hltnp "sport = :$port" | grep -v '"nginx"' || true)
    [[ -z $taken ]] || fail "port $port belongs to another program: $taken. Stop it, or choose another with --port. Nothing has changed."
fi

# ---- Swap ---------------------------------------------------------------------------------------------------

remember_units
if [[ ! -e ${content%/*} ]]; then
    remembered+=("made ${content%/*}")
elif [[ ! -e $content ]]; then
    remembered+=("made $content")
fi
swap

if [[ ! -e $content ]]; then
    rm -rf -- "$samples"
    { mkdir -p -- "${content%/*}" && cp -R -- "$repo/examples/site" "$samples" && chmod -R u=rwX,go=rX -- "$samples" &&
        mv -T -- "$samples" "$content"; } || fail "'$content' cannot be made."
fi
start_axon || fail_with_logs axon.service 'Axon does not start; its last words are above.'
if touches_nginx || ! is_active nginx.service; then
    renew_nginx || fail_with_logs nginx.service 'nginx does not start; its last words are above.'
fi
wait_until_healthy || fail_with_logs axon.service "/api/health does not answer through nginx on port $port: $unhealthy"

changed=${#targets[@]}
confirm

# ---- What now -----------------------------------------------------------------------------------------------

host=${names%% *}
[[ -n $host ]] || host=$(hostname -I 2>/dev/null | awk '{ print $1 }') || true
url=http://${host:-127.0.0.1}
[[ $port == 80 ]] || url+=:$port
((changed)) || say 'Everything was as it should be; nothing has changed'
say "$version answers:"
printf "  curl '%s/api/health'\n" "$url"
if [[ -f $content/app.js && -f $content/style.css ]]; then
    printf "  curl '%s/api/stream-files?file1=app.js&file2=style.css'\n" "$url"
fi
printf '%s\n' "Content lies in $content, settings in $settings; logs: journalctl -u axon"
printf '%s\n' "What could be better on this system: nginx -T | axon check --root $content --nginx -"
