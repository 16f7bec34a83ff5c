#!/usr/bin/env bash
# deploy-axon.sh --uninstall.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

files=$(files_now)
run_deploy 0 --uninstall --dry-run
same 'a dry run removes nothing' "$files" "$(files_now)"
healthy 'it still answers'
echo 'AXON_MAX_FILES=10' >>/etc/axon/axon.env

echo '-- killed, twice'
# begin_until ACTIVE-STATE UNIT: --uninstall, until the unit is in this state; then it is killed.
begin_until() {
    "$deploy" --uninstall >"$said" 2>&1 &
    deploying=$!
    for _ in {1..200}; do
        [[ $(property "$2" ActiveState) != "$1" ]] || break
        sleep 0.05
    done
    equal "it comes to where $2 is $1" "$(property "$2" ActiveState)" "$1"
    kill -KILL "$deploying"
    wait "$deploying" 2>/dev/null || true
    flock --timeout 60 /run/lock/axon-deploy.lock true
}
# A reload of nginx, and the end of Axon, take long enough to be seen.
mkdir -p /etc/systemd/system/{nginx,axon}.service.d
printf '[Service]\nExecReload=/bin/sleep 2\n' >/etc/systemd/system/nginx.service.d/slow.conf
printf '[Service]\nExecStop=/bin/sleep 2\n' >/etc/systemd/system/axon.service.d/slow.conf
systemctl daemon-reload
begin_until reloading nginx.service
begin_until deactivating axon.service
rm -r /etc/systemd/system/{nginx,axon}.service.d
systemctl daemon-reload

echo '-- to its end'
run_deploy 0 --uninstall
nginx_has_its_own_page "nginx's own site is back"
equal 'no unit is left' "$(systemctl list-unit-files 'axon*' --no-legend || true)" ''
equal 'nothing runs' "$(systemctl list-units 'axon*' --no-legend)" ''
equal 'what is left is ours' "$(traces | paste -sd' ')" \
    '/etc/axon /etc/axon/axon.env /etc/nginx/axon.crt /etc/nginx/axon.key /var/lib/axon /var/www/axon-api'
test -f "$content/app.js" || wrong 'the content is gone'
has_said 'and it is said' 'rm -rf /etc/axon/axon.env /var/www/axon-api /var/lib/axon /var/log/axon'
check 'nginx is content' nginx -t -q

run_deploy 0 --uninstall
has_said 'a second time' 'There is nothing to remove'
rm -rf /etc/axon /etc/nginx/axon.* /var/www/axon-api /var/lib/axon /var/log/axon
userdel _axon
