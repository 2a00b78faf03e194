#!/usr/bin/env bash
# Kills the daemon under sessions of real agents and takes them up again, without any network, where they are installed.
#
#   tests/real-sessions.sh [AGENT...]   default: ts-example py-echo gemini-cli opencode claude-agent-acp
#
# PAUSE_S          seconds before each kill (default: 0)
# ACPVISOR, ACPVISOR_SHARED and ACP_AGENTS_HOME are those of tests/real-agents.sh.
#
# For each agent: a fact and a tool call, kill -9 in the middle of the next turn, session/list, session/load (the same
# messages and tool cards as were seen live), session/resume (nothing), a question after each (the model knows what was
# said), close, delete, and nothing left. Exit 1 when anything is wrong.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tools=${ACPVISOR_SHARED:-$root/../shared}/agents
export ACP_AGENTS_HOME=${ACP_AGENTS_HOME:-$HOME/acp-agents}

skip() {
    echo "skipped: real agents are not installed ($1)"
    exit 0
}

[ -x "$tools/agent" ] || skip "$tools/agent is missing"
[ -d "$ACP_AGENTS_HOME" ] || skip "$ACP_AGENTS_HOME is missing"
"$tools/ns.sh" true 2>/dev/null || skip "a network namespace cannot be made here"
tools=$(cd "$tools" && pwd)
[ $# -gt 0 ] || set -- ts-example py-echo gemini-cli opencode claude-agent-acp

if [ -z "${ACPVISOR:-}" ]; then
    (cd "$root" && cargo build --quiet)
    ACPVISOR=${CARGO_TARGET_DIR:-$root/target}/debug/acpvisor
fi
ACPVISOR=$(realpath "$ACPVISOR")

work=$(mktemp -d)
mock=
failures=0
cleanup() {
    [ -z "$mock" ] || kill "$mock" 2>/dev/null || true
    if [ "$failures" -eq 0 ]; then rm -rf "$work"; else echo "logs are kept in $work"; fi
}
trap cleanup EXIT

# Each agent stands behind a recorder.
write_config() { # AGENT
    mkdir -m 700 "$XDG_CONFIG_HOME/acpvisor"
    "$tools/agent" "$1" cmd | python3 -c '
import json, shlex, sys
name, recorder, wire = sys.argv[1:]
args = [recorder, "--out", wire, "--", *shlex.split(sys.stdin.read())]
print("log_level = \"debug\"\n[limits]\nwarm_ms = 5000")
print(f"[agent.{json.dumps(name)}]\ncommand = \"python3\"\nargs = {json.dumps(args)}\nhandshake_s = 90")
' "$1" "$tools/tee.py" "$work/$1.wire-%p" >"$XDG_CONFIG_HOME/acpvisor/config.toml"
}

start_mock() {
    local pid=$ACP_AGENTS_HOME/logs/mock.pid before now
    before=$(cat "$pid" 2>/dev/null || true)
    "$tools/mock.sh" >/dev/null
    now=$(cat "$pid" 2>/dev/null || true)
    # One that ran before goes on running.
    [ "$before" = "$now" ] || mock=$now
}

play() { # AGENT
    for place in RUNTIME_DIR CONFIG_HOME STATE_HOME DATA_HOME CACHE_HOME; do
        export "XDG_$place=$work/$1.$place"
        mkdir -m 700 "$work/$1.$place"
    done
    write_config "$1"
    mkdir "$work/$1.place"
    echo "$1"
    "$tools/ns.sh" timeout 600 python3 "$root/tests/real-sessions.py" "$tools" "$ACPVISOR" "$work" "$work/$1.place" "$1"
}

start_mock
for agent in "$@"; do play "$agent" || failures=$((failures + 1)); done
[ "$failures" -eq 0 ] || exit 1
