#!/usr/bin/env bash
# deploy-axon.sh told to stop, or killed, and services that were stopped before it came: what is put back is as it was.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

files=$(files_now) starts=$(starts_now)
site=/etc/nginx/sites-available/axon
record=/var/lib/axon-deploy/unfinished
cp "$built" /usr/local/lib/axon-itself
# shellcheck disable=SC2016 # for the shell in it
shell_program slow '[ "$1" != --version ] || exec echo axon 0.0.1' 'sleep 3' 'exec /usr/local/lib/axon-itself "$@"'
# shellcheck disable=SC2016 # for the shell in it
shell_program ends-at-once '[ "$1" != --version ] || exec echo axon 0.0.1' 'exit 1'
shell_program exits-1 'exit 1'

# wait_for WHAT COMMAND...: until it succeeds.
wait_for() {
    local what=$1
    shift
    for _ in {1..200}; do
        ! "$@" || return 0
        sleep 0.05
    done
    wrong "$what: waited in vain"
}

# begin ARGUMENT...: a deploy of it, until its program is in place and is being started.
begun() { cmp -s /tmp/slow "$program" && [[ $(property axon.service ActiveState) == activating ]]; }
begin() {
    "$deploy" --binary /tmp/slow "$@" >"$said" 2>&1 &
    deploying=$!
    wait_for 'the deploy comes so far' begun
}

# end SIGNAL EXIT-CODE: of what was begun.
end() {
    local code=0
    kill "-$1" "$deploying"
    wait "$deploying" 2>/dev/null || code=$?
    equal "with SIG$1 it ends with $2" "$code" "$2"
    # Something it has begun, a restart, may still hold its lock.
    flock --timeout 60 /run/lock/axon-deploy.lock true
}

units() { { systemctl "$1" axon.socket axon.service nginx.service || true; } | paste -sd,; }
states() { echo "$(units is-enabled) $(units is-active)"; }

echo '-- told to stop'
begin
end TERM 143
restored 'told to stop'

begin
run_deploy 1 --binary "$built"
has_said 'a second one at the same time is refused' 'another deploy-axon.sh is running'
has_said 'it says which process that is' "process $deploying: "

echo '-- killed'
end KILL 137
run_deploy 0 --binary "$built"
has_said 'the next says so' 'The last run was stopped half way'
equal 'the next puts all right' "$(readlink "/proc/$(property axon.service MainPID)/exe")" "$program"
cmp "$built" "$program"
healthy 'and it answers'
equal 'nothing of the killed one is left' "$(traces | grep -F .deploy- || true)" ''

# One that had begun to replace nearly everything, and to make the content; then somebody edits one of its files.
mv "$content" /root/content-of-before
files=$(files_now)
fresh_copy
echo '# Another one.' | tee -a "$copy"/systemd/{axon.env,axon.service,axon.socket,logrotate.conf} >/dev/null
begin --port 8081
test -e "$content/app.js" || wrong 'there are no samples'
end KILL 137
test -e "$record" || wrong 'there is no record of what it did'
replaced=$(files_now)
[[ $replaced != "$files" ]] || wrong 'it has replaced nothing'
cp -p "$site" /root/site-of-the-killed-one
echo '# By hand.' >>"$site"
edited=$(<"$site")
deploy=$CHECKOUT/scripts/deploy-axon.sh
replaced=$(files_now)
run_deploy 0 --dry-run
has_said 'a dry run says that it would be put back' 'would first put back'
same 'and does nothing' "$replaced" "$(files_now)"
# It fails by itself, later.
run_deploy 1 --binary /tmp/exits-1
has_said 'what somebody has edited since is kept' "keep yours  $site"
equal 'as it was edited' "$(<"$site")" "$edited"
# But for what belongs to the file that was edited.
but_for_the_site() { grep -v -e "^$site " -e '^/etc/nginx/sites-available d'; }
same 'everything else is as it was' "$(but_for_the_site <<<"$files")" "$(files_now | but_for_the_site)"
test ! -e "$record" || wrong 'the record is still there'
rm "$site"
mv /root/content-of-before "$content"
run_deploy 0 --binary "$built" --port 80
healthy 'the next deploy is as any other'

# Content that was put where its samples were is nobody's to remove.
mv "$content" /root/content-of-before
begin
echo mine >"$content/mine.txt"
end KILL 137
run_deploy 0 --binary "$built"
equal 'content of somebody is kept' "$(<"$content/mine.txt")" mine
rm -r "$content"
mv /root/content-of-before "$content"

echo '-- what cannot be put back now'
begin
mount --bind /usr/local/bin /usr/local/bin
mount -o remount,bind,ro /usr/local/bin
end TERM 143
has_said 'it says so' 'Not everything could be put back'
umount /usr/local/bin
test -e "$record" || wrong 'the record is gone'
run_deploy 1 --binary /tmp/exits-1
cmp "$built" "$program"
healthy 'it is put back when it can be'

echo '-- services that were stopped'
systemctl --quiet disable --now axon.service axon.socket
before=$(states)
equal 'stopped, and disabled' "$before" 'disabled,disabled,enabled inactive,inactive,active'
run_deploy 1 --binary /tmp/ends-at-once
equal 'after one that fails they are so again' "$(states)" "$before"
run_deploy 0 --binary "$built"
equal 'one that succeeds starts them' "$(states)" 'enabled,enabled,enabled active,active,active'

# The socket alone: the service comes with the first request.
systemctl stop axon.service 2>/dev/null
systemctl --quiet disable axon.service
systemctl --quiet enable axon.socket
before=$(states)
run_deploy 1 --binary /tmp/ends-at-once
# nginx may have asked for its health meanwhile.
equal 'the socket is enabled as before' "$(states | cut -d' ' -f1)" "${before% *}"
run_deploy 0 --binary "$built"

mkdir /etc/systemd/system/nginx.service.d
printf '[Service]\nExecStartPre=/bin/false\n' >/etc/systemd/system/nginx.service.d/fails.conf
systemctl daemon-reload
systemctl stop nginx.service
files=$(files_now)
{ cat "$built" && echo another; } >/tmp/another
chmod +x /tmp/another
run_deploy 1 --binary /tmp/another
has_said 'an nginx that does not start' 'nginx does not start'
same 'every file is as it was' "$files" "$(files_now)"
equal 'it is stopped as before' "$(states)" 'enabled,enabled,enabled active,active,inactive'
rm -r /etc/systemd/system/nginx.service.d
systemctl daemon-reload
run_deploy 0 --binary "$built"
healthy 'one that can start is started'
rm /usr/local/lib/axon-itself
