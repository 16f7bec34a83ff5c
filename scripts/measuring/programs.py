"""What must be installed, and Axon itself."""
import os
import pathlib
import shutil
import subprocess

from measuring import REPO, Failure, say


def absent(wanted):
    """The packages of those programs that are not installed; `wanted` names them for each."""
    return [package for program, names in wanted.items() if not shutil.which(program) for package in names]


def install_missing(missing):
    """Installs packages with apt; `missing` is a function that lists them, and is asked again afterwards."""
    packages = missing()
    if not packages:
        return
    names = " ".join(packages)
    if not shutil.which("apt-get"):
        raise Failure(f"missing: {names}. There is no apt-get here: install them with your system's package manager.")
    as_root = []
    if os.geteuid() != 0:
        if not shutil.which("sudo") or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode:
            raise Failure(f"missing: {names}. Type this, then start again:\n"
                          f"  sudo apt-get update && sudo apt-get install -y --no-install-recommends {names}")
        as_root = ["sudo", "-n"]
    say(f"Installing {names}")
    if subprocess.run([*as_root, "apt-get", "update", "-q"]).returncode:
        raise Failure("apt-get could not read its package lists; its messages are above.")
    # The exit code also tells of services that could not start (port 80 taken), which does not matter here.
    subprocess.run([*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qy",
                    "--no-install-recommends", *packages])
    if left := missing():
        raise Failure(f"apt-get did not install {' '.join(left)}; its messages are above.")


def build():
    """The release binary's path."""
    if not shutil.which("cargo"):
        raise Failure("cargo is missing. Rust's own installer puts it into your home folder; type:\n"
                      "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPO / "target").absolute()
    say("Building Axon (the first time takes some minutes)")
    built = subprocess.run(["cargo", "build", "--release", "--locked"], cwd=REPO,
                           env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    if built.returncode:
        raise Failure("the build failed; cargo's messages are above.")
    return target / "release" / "axon"
