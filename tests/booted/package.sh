#!/usr/bin/env bash
# The Debian package: installed, brought up to date, removed and purged.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

older=/root/packages/older.deb
newer=$(echo /root/packages/axon-server_*.deb)
apt() { DEBIAN_FRONTEND=noninteractive apt-get -qy -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@" >"$said" 2>&1; }
must() {
    "$@" || {
        cat "$said" >&2
        wrong "$*"
    }
}

mkdir /var/lib/axon-deploy
! apt install "$older" || wrong 'it is installed beside what deploy-axon.sh has put there'
has_said 'not beside what deploy-axon.sh has put there' 'deploy-axon.sh --uninstall'
rmdir /var/lib/axon-deploy

must apt install "$older"
equal 'installed, it runs' "$(systemctl is-active axon.socket axon.service | paste -sd,)" active,active
equal 'and is started at boot' "$(systemctl is-enabled axon.socket axon.service | paste -sd,)" enabled,enabled
equal 'as a user of its own' "$(stat -c %U "/proc/$(property axon.service MainPID)")" _axon
equal 'with a manual page for each subcommand' "$(find /usr/share/man/man1 -name 'axon*' | wc -l)" \
    "$(($(axon --help | sed -n '/^Commands:/,/^$/p' | grep -c '^  ')))"
equal 'from where packages have their programs' "$(readlink "/proc/$(property axon.service MainPID)/exe")" /usr/bin/axon
cp /usr/share/axon/nginx-site.conf /etc/nginx/sites-available/axon
ln -s ../sites-available/axon /etc/nginx/sites-enabled/axon
rm /etc/nginx/sites-enabled/default
check 'nginx takes its site' nginx -t -q
systemctl reload nginx
# A reload is over a moment later.
for _ in {1..100}; do
    [[ $(status http://127.0.0.1/api/health) != 200 ]] || break
    sleep 0.05
done
healthy 'it answers through nginx'
bundle_is_whole 'a bundle' http://127.0.0.1 app.js tiles/0-0.png index.html
run_deploy 1 --binary "$built"
has_said 'deploy-axon.sh leaves it alone' 'apt-get remove axon-server'

echo AXON_MAX_FILES=10 >>/etc/axon/axon.env
pid=$(property axon.service MainPID) socket=$(property axon.socket ActiveEnterTimestampMonotonic)
under_load must apt install "$newer"
# shellcheck disable=SC2016 # dpkg-query's own variable
equal 'brought up to date' "$(dpkg-query -W -f '${Version}' axon-server)" "$(dpkg-deb --field "$newer" Version)"
[[ $(property axon.service MainPID) != "$pid" ]] || wrong 'the former program still runs'
equal 'the socket was there all the time' "$(property axon.socket ActiveEnterTimestampMonotonic)" "$socket"
equal 'settings that were edited are kept' "$(sed -n '1p;$p' /etc/axon/axon.env | paste -sd,)" '# Of an older version.,AXON_MAX_FILES=10'
equal 'and count' "$(status "http://127.0.0.1/api/stream-files?$(printf 'file%d=app.js&' {1..11})")" 400
healthy 'it answers'

for name in alerts.yml grafana.json; do
    check "with $name" test -s "/usr/share/doc/axon-server/docs/$name"
done

# What the administrator has stopped, and whatever is masked, stays so.
units() { { systemctl "$1" axon.socket axon.service || true; } | paste -sd,; }
states() { echo "$(units is-enabled) $(units is-active)"; }
upgrade_leaves() {
    local before
    before=$(states)
    must apt install --reinstall "$newer"
    equal "an upgrade leaves $1 so" "$(states)" "$before"
}
systemctl stop axon.service axon.socket
upgrade_leaves 'what is stopped'
systemctl --quiet disable axon.service axon.socket
upgrade_leaves 'what is disabled'
systemctl --quiet mask axon.service axon.socket
upgrade_leaves 'what is masked'
systemctl --quiet unmask axon.service axon.socket
systemctl --quiet enable --now axon.service axon.socket
healthy 'enabled, it answers'

must apt remove axon-server
equal 'removed, nothing runs' "$(systemctl list-units 'axon*' --no-legend)" ''
test -e /etc/axon/axon.env || wrong 'the settings are gone'
must apt purge axon-server
equal 'purged, the site and the content are left, which are not its own' "$(traces | paste -sd' ')" \
    '/etc/nginx/sites-available/axon /etc/nginx/sites-enabled/axon /var/www/axon-api'
