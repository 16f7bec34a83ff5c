"""The original, the Python package, under uWSGI."""
import glob
import os
import shutil
import subprocess
import sys

from measuring import Failure, say
from measuring.machine import first_line
from measuring.programs import absent

PEER_PACKAGE = "axon-api==0.9.0"
PEER_PROCESSES, PEER_THREADS = 2, 16
PEER_PROGRAM = '''"""The original as its documentation shows it: health, and files as they are or as one stream."""
from urllib.parse import parse_qsl

from axon_api.core.application import ApplicationEngine


def route(environ, engine):
    if engine.path.rstrip("/") == "/api/health":
        return engine.response.json({"status": "available"})
    if engine.path.rstrip("/") == "/api/stream-files":
        return engine.response.stream([name for _, name in parse_qsl(environ["query_string"])])
    return engine.response.message("Not Found", status_code=404)


def application(environ, start_response):
    return ApplicationEngine(environ, start_response, router=route)
'''


def peer_python():
    # uWSGI's plug-in is linked with the system's Python: another one may be another version.
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def missing_packages():
    packages = absent({"uwsgi": ["uwsgi-core", "uwsgi-plugin-python3"]})
    if shutil.which("uwsgi") and not glob.glob("/usr/lib/uwsgi/plugins/python3*_plugin.so"):
        packages.append("uwsgi-plugin-python3")
    if subprocess.run([peer_python(), "-c", "import ensurepip, venv"], capture_output=True).returncode:
        packages.append("python3-venv")
    return packages


def versions(venv):
    return {"peer": PEER_PACKAGE.replace("==", " "), "uwsgi": first_line("uwsgi", "--version"),
            "python": first_line(venv / "bin/python", "--version")}


def install_peer(out):
    """A virtual environment with the original; kept for the next time."""
    venv = out / "peer-venv"
    if (venv / "installed").exists() and (venv / "installed").read_text() == PEER_PACKAGE:
        return venv
    say(f"Installing {PEER_PACKAGE} into {venv}")
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([peer_python(), "-m", "venv", venv], check=True)
    pip = subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                          PEER_PACKAGE])
    if pip.returncode:
        raise Failure(f"pip could not install {PEER_PACKAGE}; its messages are above.")
    (venv / "installed").write_text(PEER_PACKAGE)
    return venv


def start_peer(stack, venv, root):
    (stack.dir / "original.py").write_text(PEER_PROGRAM)
    stack.start(["uwsgi", "--plugin", "python3", "--socket", stack.socket, "--chmod-socket=666", "--master",
                 "--processes", PEER_PROCESSES, "--threads", PEER_THREADS, "--virtualenv", venv, "--chdir", root,
                 "--pythonpath", stack.dir, "--module", "original:application", "--disable-logging",
                 "--buffer-size", 65535, "--die-on-term"], dict(os.environ))
