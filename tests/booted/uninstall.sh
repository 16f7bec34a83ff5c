#!/usr/bin/env bash
# deploy-axon.sh --uninstall.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

files=$(files_now)
run_deploy 0 --uninstall --dry-run
same 'a dry run removes nothing' "$files" "$(files_now)"
healthy 'it still answers'
echo 'AXON_MAX_FILES=10' >>/etc/axon/axon.env

run_deploy 0 --uninstall
nginx_has_its_own_page "nginx's own site is back"
equal 'no unit is left' "$(systemctl list-unit-files 'axon*' --no-legend || true)" ''
equal 'nothing runs' "$(systemctl list-units 'axon*' --no-legend)" ''
equal 'what is left is ours' "$(traces | paste -sd' ')" \
    '/etc/axon /etc/axon/axon.env /etc/nginx/axon.crt /etc/nginx/axon.key /usr/local/lib/axon-itself /var/lib/axon /var/www/axon-api'
test -f "$content/app.js" || wrong 'the content is gone'
has_said 'and it is said' 'rm -rf /etc/axon/axon.env /var/www/axon-api /var/lib/axon /var/log/axon'
check 'nginx is content' nginx -t -q

run_deploy 0 --uninstall
has_said 'a second time' 'There is nothing to remove'
rm -rf /etc/axon /etc/nginx/axon.* /usr/local/lib/axon-itself /var/www/axon-api /var/lib/axon /var/log/axon
userdel _axon
