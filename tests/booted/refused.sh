#!/usr/bin/env bash
# What deploy-axon.sh says where it cannot do its work; and that it then has done nothing.
# shellcheck source=tests/booted/checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

files=$(files_now) starts=$(starts_now)

# in_view SETUP EXIT-CODE ARGUMENT...: deploy-axon.sh with a view of the file system of its own, after SETUP there.
in_view() {
    local setup=$1 expected=$2 code=0
    shift 2
    unshare --mount -- bash -ec "$setup"$'\nexec "$@"' bash "$deploy" "$@" >"$said" 2>&1 || code=$?
    ((code == expected)) || {
        cat "$said" >&2
        wrong "after '$setup', deploy-axon.sh $* exited with $code, not $expected"
    }
}

echo '-- the system'
# on_release EXIT-CODE LINE...: on a system whose os-release says so.
on_release() {
    printf '%s\n' "${@:2}" >/tmp/os-release
    in_view 'mount --bind /tmp/os-release /etc/os-release' "$1" --dry-run
}
on_release 1 ID=fedora 'PRETTY_NAME="Fedora Linux 41"'
has_said 'not on Fedora' 'Fedora Linux 41 is neither Debian nor Ubuntu'
on_release 1 ID=debian VERSION_ID=11 'PRETTY_NAME="Debian GNU/Linux 11"'
has_said 'not on Debian 11' 'Debian GNU/Linux 11 is too old'
on_release 1 ID=ubuntu VERSION_ID=20.04 'PRETTY_NAME="Ubuntu 20.04"'
has_said 'not on Ubuntu 20.04' 'Ubuntu 20.04 is too old'
on_release 0 ID=ubuntu VERSION_ID=22.04 'PRETTY_NAME="Ubuntu 22.04"'
has_said 'on Ubuntu 22.04' 'Deploying Axon to Ubuntu 22.04'
on_release 0 ID=debian 'PRETTY_NAME="Debian GNU/Linux forky/sid"'
has_said "on Debian's next" 'Deploying Axon to Debian GNU/Linux forky/sid'
on_release 0 ID=linuxmint 'ID_LIKE="ubuntu debian"' VERSION_ID=21 'PRETTY_NAME="Linux Mint 21"'
has_said 'on what is like them' 'Linux Mint 21 is not known here; trying'
mv /etc/os-release /root/os-release
run_deploy 1 --dry-run
mv /root/os-release /etc/os-release
has_said 'not where nothing tells what it is' 'there is no /etc/os-release'
in_view 'mount -t tmpfs tmpfs /run/systemd' 1 --dry-run
has_said 'not without systemd' 'systemd does not run this machine'
mv /usr/bin/apt-get /root/apt-get
run_deploy 1 --dry-run
mv /root/apt-get /usr/bin/apt-get
has_said 'not without apt-get' 'there is no apt-get here'
# apt-get thinks that it is there.
mv /usr/bin/curl /root/curl
run_deploy 1 --binary "$built"
mv /root/curl /usr/bin/curl
has_said 'not if apt-get does not install what is missing' 'apt-get did not install curl'
untouched 'another system'

echo '-- the checkout, and what is built of it'
fresh_copy
rm "$copy/scripts/nginx-site"
run_deploy 1
has_said 'a part is missing' "'$copy/scripts/nginx-site' is missing"
fresh_copy
code=0
env CARGO_HOME=/nowhere HOME=/nowhere "$deploy" >"$said" 2>&1 || code=$?
equal 'not without cargo' "$code" 1
has_said 'it says how to have it' 'sh.rustup.rs'
if [[ -n $TOOLCHAIN ]]; then
    echo 'this is not Rust' >"$copy/src/lib.rs"
    run_deploy 1
    has_said "it shows the compiler's reason" 'this is not Rust'
    has_said 'and that nothing has changed' 'the build failed'
fi
untouched 'a checkout that is not whole'

echo '-- nginx'
deploy=$CHECKOUT/scripts/deploy-axon.sh
cp /etc/nginx/sites-available/default /root/default
echo '# By hand.' >>/etc/nginx/sites-available/default
ln -s ../sites-available/default /etc/nginx/sites-enabled/default
files=$(files_now)
run_deploy 1 --binary "$built"
has_said 'a default site that was edited is not disabled' 'has been edited. Choose: --port N'
untouched 'a default site that was edited'
rm /etc/nginx/sites-enabled/default
cp /root/default /etc/nginx/sites-available/default

cp /etc/nginx/nginx.conf /root/nginx.conf
sed -i 's|^\(.*include /etc/nginx/sites-enabled\)|#\1|' /etc/nginx/nginx.conf
files=$(files_now)
run_deploy 1 --binary "$built"
has_said 'an nginx that does not read its sites' 'include /etc/nginx/sites-enabled/*;'
untouched 'an nginx that does not read its sites'
cp /root/nginx.conf /etc/nginx/nginx.conf

echo '-- the content'
mv "$content" /root/content-of-before
files=$(files_now)
in_view 'mount --bind /var/www /var/www; mount -o remount,bind,ro /var/www' 1 --binary "$built"
has_said 'content that cannot be made' "'$content' cannot be made"
restored 'content that cannot be made'
mv /root/content-of-before "$content"
