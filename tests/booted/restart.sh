#!/usr/bin/env bash
# Restarts and a new program while clients ask.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

restart_often() {
    local times
    for times in {1..20}; do
        systemctl restart axon.service || return
    done
    : "$times"
}

before=$(property axon.service MainPID)
under_load restart_often
[[ $(property axon.service MainPID) != "$before" ]] || wrong 'it was not restarted'
test -S /run/axon/axon.sock || wrong 'the socket is gone'
printf '   twenty restarts\n'

# An answer that takes longer than a restart takes to begin is finished by the process that began it.
head -c 3000000 /dev/urandom >"$content/large.bin"
fetch --limit-rate 1m -o /tmp/large.bin 'http://127.0.0.1/api/stream-files?file=large.bin' &
download=$!
for _ in {1..100}; do
    [[ ! -s /tmp/large.bin ]] || break
    sleep 0.05
done
check 'a restart in the middle of a download' systemctl restart axon.service
wait "$download" || wrong 'the download was cut'
check 'the download is whole' cmp /tmp/large.bin "$content/large.bin"
rm "$content/large.bin"

# Bytes at the end of a program change nothing but the file.
{ cat "$built" && echo another; } >/tmp/another
chmod +x /tmp/another
under_load run_deploy 0 --binary /tmp/another
cmp /tmp/another "$program"
equal 'the new program runs' "$(readlink "/proc/$(property axon.service MainPID)/exe")" "$program"
under_load run_deploy 0 --binary "$built"
cmp "$built" "$program"
