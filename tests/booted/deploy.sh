#!/usr/bin/env bash
# deploy-axon.sh on a system that has neither nginx nor curl, again on the one it has made, and with its options.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

echo '-- before there is anything'
! type -P nginx curl >/dev/null || wrong 'nginx or curl is there already'
chmod +x "$deploy"
nothing=$(files_now)
run_deploy 0 --dry-run
same 'a dry run changes nothing' "$nothing" "$(files_now)"
has_said 'a dry run tells what it would do' 'install     /etc/systemd/system/axon.service'
run_deploy 2 --bogus
run_deploy 2 --binary /no/such/file
run_deploy 2 --port 65536
run_deploy 2 --server-name 'a; include /etc/shadow'
run_deploy 2 --server-name '*'
run_deploy 2 --uninstall --port 81
same 'wrong usage changes nothing' "$nothing" "$(files_now)"
# Somebody else may not be let into the checkout.
open=$(mktemp -d)
cp -R -- "$CHECKOUT/scripts" "$open/"
chmod 755 "$open"
code=0
setpriv --reuid=nobody --regid=nogroup --clear-groups "$open/scripts/deploy-axon.sh" --port 81 >"$said" 2>&1 || code=$?
equal 'not as somebody else' "$code" 1
has_said 'it says what to type' "sudo $open/scripts/deploy-axon.sh --port 81"
rm -rf -- "$open"

systemctl --quiet mask axon.service
run_deploy 1 --binary "$built"
has_said 'a unit that was masked is left so' 'systemctl unmask axon.service'
systemctl --quiet unmask axon.service
same 'and nothing has changed' "$nothing" "$(files_now)"

echo '-- a first deploy that fails'
cat >/tmp/ends-at-once <<'TEXT'
#!/bin/sh
[ "$1" != --version ] || exec echo axon 0.0.1
echo 'this one ends at once' >&2
exit 1
TEXT
chmod +x /tmp/ends-at-once
run_deploy 1 --binary /tmp/ends-at-once
has_said 'it shows why' 'this one ends at once'
type -P nginx curl >/dev/null || wrong 'nginx and curl were not installed'
# But for the directory that systemd has made for the service.
equal 'nothing of it is left' "$(traces)" /var/lib/axon
nginx_has_its_own_page "nginx's own site is back"
equal 'no unit is left' "$(systemctl list-unit-files 'axon*' --no-legend || true)" ''

echo '-- the first one'
cd "$CHECKOUT/scripts" || exit
chmod a-x deploy-axon.sh
if [[ -n $TOOLCHAIN ]]; then
    { chmod +x deploy-axon.sh && ./deploy-axon.sh; } >"$said" 2>&1 || {
        cat "$said" >&2
        wrong 'chmod +x deploy-axon.sh && ./deploy-axon.sh'
    }
else
    chmod +x deploy-axon.sh
    run_deploy 0 --binary "$built"
fi
cat "$said"
has_said "it says that nginx's own site goes" 'default site will be disabled'
cmp "$built" "$program"
healthy 'nginx answers for it on port 80'
equal 'and by IPv6' "$(status -g 'http://[::1]/api/health')" 200
bundle_is_whole 'a bundle' http://127.0.0.1 app.js tiles/0-0.png index.html
equal 'both are started at boot' "$(systemctl is-enabled axon.socket axon.service | paste -sd,)" enabled,enabled
nginx -T 2>/dev/null | "$program" check --root "$content" --secret-file /var/lib/axon/secret --nginx - >"$said" || {
    cat "$said" >&2
    wrong 'axon check finds errors'
}
has_said 'axon check finds no error' 'sites-enabled/axon'
equal 'nothing of the work is left' "$(traces | grep -F .deploy- || true)$(find /tmp -name 'axon-deploy.*')" ''

echo '-- who may connect'
equal 'the socket is for www-data' "$(stat -c '%a %U:%G' /run/axon/axon.sock)" '660 root:www-data'
equal 'its directory is of root' "$(stat -c '%a %U:%G' /run/axon)" '755 root:root'
as() { setpriv --reuid="$1" --regid="$2" --clear-groups "$program" request unix:/run/axon/axon.sock /api/health -i; }
[[ $(as www-data www-data) == 'HTTP/1.1 200 OK'* ]] || wrong 'www-data is not answered'
! as nobody nogroup >"$said" 2>&1 || wrong 'nobody is answered'
has_said 'nobody is refused' 'Permission denied'

echo '-- the sandbox'
pid=$(property axon.service MainPID)
equal 'a user of its own' "$(stat -c %U:%G "/proc/$pid")" _axon:_axon
field() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$pid/status"; }
equal 'no capabilities' "$(field CapEff) $(field CapBnd)" '0000000000000000 0000000000000000'
equal 'no new privileges, and a filter of system calls' "$(field NoNewPrivs) $(field Seccomp)" '1 2'
[[ $(readlink "/proc/$pid/ns/net") != "$(readlink /proc/1/ns/net)" ]] || wrong 'it has the network of the system'
equal 'it interrupts nobody' "$(ps -o policy= -p "$pid" | tr -d ' ')" B
touch /root/canary
equal 'no homes' "$(ls -A "/proc/$pid/root/root")" ''
equal 'a file system that is read-only' "$(awk '$5 == "/" { print substr($6, 1, 2) }' "/proc/$pid/mountinfo" | tail -n 1)" ro
# Where even root may not raise a limit, systemd gives what there is.
limit=$(sed -n 's/^LimitNOFILE=//p' "$CHECKOUT/systemd/axon.service")
prlimit --nofile="$limit:$limit" true 2>/dev/null || limit=$(prlimit --pid 1 --nofile --output HARD --noheadings | tr -d ' ')
equal 'its descriptors' "$(awk '/Max open files/ { print $4 }' "/proc/$pid/limits")" "$limit"
install -m 600 /dev/null "$content/of-root.txt"
equal 'what it may not read is refused' "$(status 'http://127.0.0.1/api/stream-files?file=of-root.txt')" 403
rm "$content/of-root.txt"

echo '-- what it tells'
equal 'it is ready, and was started once' "$(property axon.service SubState) $(property axon.service NRestarts)" 'running 0'
[[ -n $(property axon.service StatusText) ]] || wrong 'no status'
alive=$(property axon.service WatchdogTimestampMonotonic)
for _ in {1..60}; do
    [[ $(property axon.service WatchdogTimestampMonotonic) == "$alive" ]] || break
    sleep 0.5
done
((alive > 0 && $(property axon.service WatchdogTimestampMonotonic) > alive)) || wrong 'no sign of life in thirty seconds'
status 'http://127.0.0.1/api/stream-files?file1=app.js&file2=style.css&seen=here' >/dev/null
status 'http://127.0.0.1/api/stream-files?file1=app.js&file2=style.css' >/dev/null
# nginx writes once a second.
for _ in {1..50}; do
    id=$(sed -n 's/.*"id":"\([0-9a-f]*\)".*"status":200.*"parts":"2".*/\1/p' /var/log/nginx/axon.log | tail -n 1)
    [[ -z $id ]] || break
    sleep 0.2
done
record=$(journalctl -u axon.service -o cat --no-pager | grep -F "\"request_id\":\"$id\"") || wrong "the journal has no record of $id"
[[ $record == '{'*'"level":"INFO"'*'"status":200'*'"parts":2'*'}' ]] || wrong "the journal's record is $record"
printf '   %s\n' 'the journal has its records as JSON, with the number that nginx gave'

echo '-- a reload'
echo AXON_LOG_LEVEL=debug >>/etc/axon/axon.env
check 'systemctl reload' systemctl reload axon.service
equal 'it is the same process' "$(property axon.service MainPID)" "$pid"
healthy 'it answers'
# The signal was sent; what it asks for is done a moment later.
tells_of_it() { [[ $(journalctl -u axon.service -o cat --no-pager) == *'"message":"reloaded","log_level":"DEBUG"'* ]]; }
for _ in {1..100}; do
    ! tells_of_it || break
    sleep 0.1
done
check 'the log tells of the new level' tells_of_it

echo '-- a log file'
echo AXON_LOG_FILE=/var/log/axon/axon.log >>/etc/axon/axon.env
systemctl restart axon.service
# ask_and_find QUERY: a record is written a moment after the answer.
ask_and_find() {
    status "http://127.0.0.1/api/health?$1" >/dev/null
    for _ in {1..100}; do
        ! grep -qF "\"query\":\"$1\"" /var/log/axon/axon.log || return 0
        sleep 0.1
    done
    wrong "no record of $1"
}
ask_and_find before
check 'logrotate' logrotate --force /etc/logrotate.d/axon
ask_and_find after
equal 'what came before and after it is in one file each' \
    "$(grep -c '"query":"before"' /var/log/axon/axon.log.1) $(grep -c '"query":"after"' /var/log/axon/axon.log)" '1 1'
sed -i '/^AXON_LOG_FILE=/d' /etc/axon/axon.env
systemctl restart axon.service

echo '-- again'
files=$(files_now) starts=$(starts_now)
run_deploy 0 --binary "$built"
has_said 'it keeps settings that were edited' 'keep yours  /etc/axon/axon.env'
has_said 'it says that nothing has changed' 'nothing has changed'
same 'nothing has changed' "$files" "$(files_now)"
same 'nothing was started anew' "$starts" "$(starts_now)"
cp "$CHECKOUT/systemd/axon.env" /etc/axon/axon.env
spaced='/root/a path/and, another'
mkdir -p "$spaced"
cp -a "$CHECKOUT/." "$spaced"
cp "$built" "$spaced/my axon"
files=$(files_now)
"$spaced/scripts/deploy-axon.sh" --binary "$spaced/my axon" >"$said" 2>&1 || {
    cat "$said" >&2
    wrong 'a path with a space'
}
same 'the same from a path with a space' "$files" "$(files_now)"

echo '-- another port, a name'
run_deploy 0 --binary "$built" --port 8080
healthy 'on port 8080' :8080
run_deploy 0 --binary "$built"
healthy 'and still, when nothing is said' :8080
run_deploy 0 --binary "$built" --port=80 --server-name ' files.example.org *.files.example.org'
equal 'by its name' "$(status -H 'Host: a.files.example.org' http://127.0.0.1/api/health)" 200
run_deploy 0 --binary "$built" --server-name ''
healthy 'by any name'
(exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null && wrong 'port 8080 still answers'

echo '-- a site that was edited'
site=/etc/nginx/sites-available/axon
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=axon -keyout /etc/nginx/axon.key -out /etc/nginx/axon.crt 2>"$said"
sed -i -e 's|^    listen 80 default_server;|    listen 443 ssl default_server; ssl_certificate axon.crt; ssl_certificate_key axon.key;|' \
    -e '/listen \[::\]/d' "$site"
# shellcheck disable=SC2016 # nginx's own variables
printf 'server {\n    listen 80 default_server;\n    return 301 https://$host$request_uri;\n}\n' >>"$site"
edited=$(<"$site")
systemctl reload nginx
run_deploy 0 --binary "$built"
has_said 'it is kept, and health asked for by TLS' "keep yours  $site"
equal 'as it was' "$(<"$site")" "$edited"
files=$(files_now)
run_deploy 1 --binary "$built" --port 8080
has_said 'what cannot be set there is said' 'has been edited'
same 'and nothing has changed' "$files" "$(files_now)"
rm "$site"
run_deploy 0 --binary "$built"
healthy 'without it, the one that comes with Axon'

# For what comes after the reboot.
fetch -o /dev/null -w '%header{etag}' 'http://127.0.0.1/api/stream-files?file1=app.js&file2=style.css' >/root/etag
