#!/usr/bin/env bash
# After the system was started again: nobody has typed anything.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

healthy 'it answers'
bundle_is_whole 'a bundle' http://127.0.0.1 app.js tiles/0-0.png index.html
equal 'with the tag it had before' \
    "$(fetch -o /dev/null -w '%header{etag}' 'http://127.0.0.1/api/stream-files?file1=app.js&file2=style.css')" "$(</root/etag)"
equal 'no unit has failed' "$(systemctl list-units --failed --no-legend 'axon*' 'nginx*')" ''
