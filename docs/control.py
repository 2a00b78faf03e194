#!/usr/bin/env python3
"""Asks a running acpvisor for its status over the control socket, and prints it.

Usage: control.py [METHOD [ID]], such as `control.py tree` or `control.py sessions.show ID`.
"""

import json
import os
import pathlib
import socket
import sys


def directory(variable, default):
    """What the variable names, if that is an absolute path."""
    path = os.environ.get(variable, "")
    return pathlib.Path(path) if os.path.isabs(path) else default


def control_socket():
    state_home = directory("XDG_STATE_HOME", pathlib.Path.home() / ".local" / "state")
    state = directory("ACPVISOR_STATE_DIR", state_home / "acpvisor")
    runtime = directory("XDG_RUNTIME_DIR", None)
    runtime = directory("ACPVISOR_RUNTIME_DIR", runtime / "acpvisor" if runtime else state / "run")
    return str(runtime / "control.sock")


def call(path, method, params):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r", encoding="utf-8") as lines:
            line = lines.readline()
    if not line:
        raise ConnectionError("the daemon closed the connection without an answer")
    return json.loads(line)


def main():
    method = sys.argv[1] if len(sys.argv) > 1 else "status"
    params = {"id": sys.argv[2]} if len(sys.argv) > 2 else {}
    path = control_socket()
    try:
        answer = call(path, method, params)
    except OSError as error:
        sys.exit(f"no daemon answers on {path}: {error}")
    if "error" in answer:
        sys.exit("{code}: {message}".format(**answer["error"]))
    print(json.dumps(answer["result"], indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
