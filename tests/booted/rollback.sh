#!/usr/bin/env bash
# What deploy-axon.sh does when something is wrong: nothing, or it takes back what it did; Axon answers all the time after.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

files=$(files_now) starts=$(starts_now)

echo '-- programs that do not work'
# shellcheck disable=SC2016 # for the shell in it
shell_program exits-1 'exit 1'
run_deploy 1 --binary /tmp/exits-1
untouched 'one that does not run'

# shellcheck disable=SC2016 # for the shell in it
shell_program ends-at-once '[ "$1" != --version ] || exec echo axon 0.0.1' 'exit 1'
# The requests of that time wait in the socket's queue for the former program.
under_load run_deploy 1 --binary /tmp/ends-at-once
restored 'one that ends at once'

run_deploy 1 --binary "$CHECKOUT/tests/booted/answers_500.pl"
has_said 'it says what was wrong' '500'
restored 'one that answers 500'

# It is ended by systemd, as it would be after the ninety seconds that are the rule.
mkdir /etc/systemd/system/axon.service.d
printf '[Service]\nTimeoutStartSec=2\n' >/etc/systemd/system/axon.service.d/hurry.conf
systemctl daemon-reload
files=$(files_now)
# shellcheck disable=SC2016 # for the shell in it
shell_program never-ready '[ "$1" != --version ] || exec echo axon 0.0.1' 'exec sleep 1000'
run_deploy 1 --binary /tmp/never-ready
restored 'one that never gets ready'
rm -r /etc/systemd/system/axon.service.d
systemctl daemon-reload
files=$(files_now)

echo '-- configurations that do not work'
fresh_copy
sed -i 's/server_tokens off;/server_tokens perhaps;/' "$copy/nginx.conf"
run_deploy 1 --binary "$built"
has_said "it shows nginx's reason" 'invalid value "perhaps"'
untouched 'an nginx.conf that nginx refuses'

fresh_copy
echo 'ExecStart=/usr/local/bin/axon serve' >>"$copy/systemd/axon.service"
sed -i '/^\[Install\]/,$ { /^ExecStart=/ d }; s|^ExecStart=.*|&\n&|' "$copy/systemd/axon.service"
run_deploy 1 --binary "$built"
has_said "it shows systemd's reason" 'ExecStart='
untouched 'a unit that systemd refuses'

fresh_copy
printf 'AXON_MAX_FILES=many\n' >"$copy/systemd/axon.env"
run_deploy 1 --binary "$built"
restored 'settings that Axon refuses'

echo '-- a system that is not as it should be'
deploy=$CHECKOUT/scripts/deploy-axon.sh
{ cat "$built" && echo another; } >/tmp/another
chmod +x /tmp/another
echo 'server { listen 80 }' >/etc/nginx/sites-enabled/somebody-elses
files=$(files_now)
run_deploy 1 --binary /tmp/another
has_said "it says where somebody else's mistake is" sites-enabled/somebody-elses
untouched "somebody else's mistake in nginx"
rm /etc/nginx/sites-enabled/somebody-elses
files=$(files_now)

mount -t tmpfs -o size=1m tmpfs /usr/local/bin
run_deploy 1 --binary /tmp/another
equal 'a full disk: nothing is left there' "$(ls -A /usr/local/bin)" ''
umount /usr/local/bin
untouched 'a full disk'

perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); bind(S, pack_sockaddr_in(8081, INADDR_ANY)) or die; listen(S, 1); sleep 60' &
other=$!
for _ in {1..100}; do
    [[ -z $(ss -Hltn 'sport = :8081') ]] || break
    sleep 0.05
done
run_deploy 1 --binary "$built" --port 8081
has_said 'it says who has the port' '"perl"'
kill "$other"
untouched 'a port that is taken'
