#!/usr/bin/env bash
# Plays real agents and real hosts through acpvisor, without any network, where they are installed.
#
#   tests/real-agents.sh [AGENT...]     default: ts-example py-example opencode gemini-cli claude-agent-acp
#
# ACPVISOR         the binary; without it a debug build of this tree
# ACPVISOR_SHARED  where agents/ lies (default: shared, beside this tree)
# ACP_AGENTS_HOME  where the agents are installed (default: ~/acp-agents)
# HOST_AGENT       the agent that the real hosts talk to (default: opencode when it is played, else the first one)
#
# A scripted host drives each agent through a daemon in a network namespace that has loopback only. What it saw is
# compared with what it saw without the daemon, where results/AGENT.json is there. Exit 1 when anything is wrong.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tools=${ACPVISOR_SHARED:-$root/../shared}/agents
export ACP_AGENTS_HOME=${ACP_AGENTS_HOME:-$HOME/acp-agents}
python_sdk=$ACP_AGENTS_HOME/py/pysdk/bin/python
python_host=$ACP_AGENTS_HOME/src/examples-py/client.py
typescript_sdk=$ACP_AGENTS_HOME/agents/ts-sdk-old/node_modules/@agentclientprotocol/sdk/dist/acp.js
places=$ACP_AGENTS_HOME/work
run_s=900
gone_s=20

skip() {
    echo "skipped: real agents are not installed ($1)"
    exit 0
}

[ -x "$tools/agent" ] || skip "$tools/agent is missing"
[ -d "$ACP_AGENTS_HOME" ] || skip "$ACP_AGENTS_HOME is missing"
"$tools/ns.sh" true 2>/dev/null || skip "a network namespace cannot be made here"
tools=$(cd "$tools" && pwd)
[ $# -gt 0 ] || set -- ts-example py-example opencode gemini-cli claude-agent-acp

host_agent=${HOST_AGENT:-}
if [ -z "$host_agent" ]; then
    case " $* " in *" opencode "*) host_agent=opencode ;; *) host_agent=$1 ;; esac
fi

if [ -z "${ACPVISOR:-}" ]; then
    (cd "$root" && cargo build --quiet)
    ACPVISOR=$root/target/debug/acpvisor
fi
ACPVISOR=$(realpath "$ACPVISOR")

# One daemon in a directory of its own.
work=$(mktemp -d)
daemon=
mock=
failures=0
for place in RUNTIME_DIR CONFIG_HOME STATE_HOME DATA_HOME CACHE_HOME; do
    export "XDG_$place=$work/$place"
    mkdir -m 700 "$work/$place"
done

cleanup() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -z "$mock" ] || kill "$mock" 2>/dev/null || true
    if [ "$failures" -eq 0 ]; then rm -rf "$work"; else echo "logs are kept in $work"; fi
}
trap cleanup EXIT

fail() {
    failures=$((failures + 1))
    printf "%s\n" "$*" | tee -a "$work/faults" >&2
}

# Waits until a command succeeds: wait_for SECONDS COMMAND...
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}

write_config() {
    mkdir -m 700 "$XDG_CONFIG_HOME/acpvisor"
    for agent in "$@"; do
        printf '%s\t%s\n' "$agent" "$("$tools/agent" "$agent" cmd)"
    done | sort -u | python3 -c '
import json, shlex, sys
print("log_level = \"debug\"")
for line in sys.stdin:
    name, command = line.rstrip("\n").split("\t")
    program, *args = shlex.split(command)
    print(f"\n[agent.{json.dumps(name)}]\ncommand = {json.dumps(program)}\nargs = {json.dumps(args)}\nhandshake_s = 90")
' >"$XDG_CONFIG_HOME/acpvisor/config.toml"
}

start_mock() {
    [ ! -f "$ACP_AGENTS_HOME/logs/mock.pid" ] || before=$(cat "$ACP_AGENTS_HOME/logs/mock.pid")
    "$tools/mock.sh" >/dev/null
    # One that ran before goes on running.
    now=$(cat "$ACP_AGENTS_HOME/logs/mock.pid" 2>/dev/null || true)
    [ "${before:-}" = "$now" ] || mock=$now
}

start_daemon() {
    "$tools/ns.sh" "$ACPVISOR" daemon >"$work/daemon.out" 2>"$work/daemon.err" &
    daemon=$!
    wait_for 20 "$ACPVISOR" status || { cat "$work/daemon.err"; fail "the daemon does not answer"; exit 1; }
}

# Whether nothing runs below the daemon, and nothing of an agent's in the directory it worked in.
quiet() {
    python3 - "$daemon" "$1" <<'PY'
import os, sys
daemon, place, parents, left = int(sys.argv[1]), os.path.realpath(sys.argv[2]), {}, []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        state, parent = open(f"/proc/{pid}/stat").read().rpartition(") ")[2].split()[:2]
        cwd = os.readlink(f"/proc/{pid}/cwd") if state != "Z" else ""
    except OSError:
        continue
    parents[int(pid)] = int(parent)
    if (cwd + "/").startswith(place + "/"):
        left.append(int(pid))
def below(pid):
    while pid in parents:
        pid = parents[pid]
        if pid == daemon:
            return True
left += [pid for pid in parents if below(pid)]
for pid in left:
    print(pid, open(f"/proc/{pid}/cmdline").read().replace("\0", " ")[:150])
sys.exit(bool(left))
PY
}

expect_quiet() { # WHO PLACE
    wait_for "$gone_s" quiet "$2" || fail "$1: processes are left: $(quiet "$2" 2>&1 || true)"
}

drive() { # AGENT
    local result=$ACP_AGENTS_HOME/results/$1-via.json place=$places/$1-via
    rm -rf "$place" "$result"
    echo "playing $1"
    timeout "$run_s" "$tools/agent" "$1" via main -- "$ACPVISOR" acp --agent "$1" >"$work/$1.out" 2>&1 ||
        fail "$1: the run did not end by itself: $(tail -1 "$work/$1.out")"
    expect_quiet "$1" "$place"
}

# One row of the table, and what was wrong below it.
judge() { # AGENT
    python3 - "$ACP_AGENTS_HOME/results" "$1" <<'PY'
import json, os, sys
folder, name = sys.argv[1:]
def read(file):
    path = f"{folder}/{file}.json"
    return json.load(open(path)) if os.path.exists(path) else {}
direct, via = read(name), read(name + "-via")
d, v = direct.get("main", {}), via.get("main", {})
faults = []

def failure(step):
    if not isinstance(step, dict):
        return None
    if "error" in step:
        return f"error {step['error'].get('code')}"
    return next((f"{word} {step[word]}" for word in ("TIMEOUT", "DEAD", "EXC") if word in step), None)

def stop(steps, name):
    step = steps.get(name)
    return failure(step) or (step or {}).get("stop")

def asked(steps):
    return any("session/request_permission" in s.get("requests", []) for s in steps.values() if isinstance(s, dict))

def cell(right, why):
    if not right:
        faults.append(why)
    return "ok" if right else "WRONG"

def opens(step):
    return cell(isinstance(v.get(step), dict) and not failure(v[step]), f"{step}: {failure(v.get(step)) or 'no answer'}")

def permission():
    if asked(v):
        respected = via.get("reject_respected", True)
        return cell(respected, "a rejected command ran")
    return cell(False, "permission: the host was not asked") if asked(d) else "-"

def cancel():
    kinds = {"cancelled", stop(d, "cancel-text")} - {None}
    got = stop(v, "cancel-text"), stop(v, "cancel-in-permission")
    # What the agent does not cancel by itself ends as cancelled all the same.
    return cell(got[0] in kinds and got[1] in {"cancelled", stop(d, "cancel-in-permission")}, f"cancel: {got}")

def close():
    refused = failure(v.get("prompt closed session")) == "error -32002"
    return cell(v.get("session/close") == {} and refused, f"close: {v.get('session/close')}, {v.get('prompt closed session')}")

cells = [
    opens("initialize"), opens("session/new"),
    cell(stop(v, "text") in ("end_turn", d and stop(d, "text")), f"prompt: {stop(v, 'text')}"),
    permission(), cancel(), close(),
]

# What the daemon answers otherwise than the agent, and has to.
own = {"initialize", "session/new", "text", "session/close", "prompt closed session", "prompt in fork",
       "cancel-text", "cancel-in-permission", "session/resume same proc"}
withheld = {"session/list", "session/list cwd", "session/load same proc", "session/fork"}
for step in sorted(set(d) | set(v)):
    if step in own:
        continue
    if step in withheld:
        if step in v and failure(v[step]) != "error -32601":
            faults.append(f"{step}: {json.dumps(v[step])[:200]}")
    elif step == "two-prompts-one-session":
        # The second prompt waits for the first.
        if any(v.get(step, {}).get(which) != "end_turn" for which in ("first", "second")):
            faults.append(f"{step}: {json.dumps(v.get(step))[:200]}")
    elif d and (step in d) != (step in v):
        faults.append(f"{step}: only {'directly' if step in d else 'through the daemon'}")
    elif failure(v[step]) != (failure(d[step]) if d else None) or (d and stop(v, step) != stop(d, step)):
        faults.append(f"{step}: {stop(v, step)}, directly {stop(d, step) if d else 'unknown'}")
    elif d and isinstance(v[step], dict) and sorted(v[step].get("requests", [])) != sorted(d[step].get("requests", [])):
        faults.append(f"{step}: asked {v[step]['requests']}, directly {d[step]['requests']}")
    elif d and step in ("big", "chunks", "uni") and v[step].get("textlen") != d[step].get("textlen"):
        faults.append(f"{step}: {v[step].get('textlen')} characters, directly {d[step].get('textlen')}")
if d and via.get("write_ok") != direct.get("write_ok"):
    faults.append(f"a file was written: {via.get('write_ok')}, directly {direct.get('write_ok')}")
if via.get("exit_main", {}).get("rc") != 0:
    faults.append(f"the bridge ended with {via.get('exit_main')}")
print(f"{name:<20}" + "".join(f"{cell:<13}" for cell in cells) + ("" if d else "(nothing to compare with)"))
for fault in faults:
    print(f"    {fault}")
sys.exit(bool(faults))
PY
}

# Real hosts say the same through the daemon as without it.
compare_host() { # NAME WHAT_COUNTS RUN
    local name=$1 counts=$2 run=$3 place=$work/host
    mkdir -p "$place"
    echo "playing the $name host with $host_agent"
    (cd "$place" && "$run" direct >"$work/$name.direct" 2>&1) || fail "$name host: fails without the daemon"
    (cd "$place" && "$run" via >"$work/$name.via" 2>&1) || fail "$name host: $(tail -1 "$work/$name.via")"
    expect_quiet "$name host" "$place"
    if "$counts" <"$work/$name.direct" | cmp -s - <("$counts" <"$work/$name.via"); then
        printf '%-20s%s\n' "$name host" "as without the daemon: $("$counts" <"$work/$name.via" | tail -1)"
    else
        fail "$name host: $(diff <("$counts" <"$work/$name.direct") <("$counts" <"$work/$name.via") | head -5)"
        printf '%-20s%s\n' "$name host" WRONG
    fi >>"$work/hosts"
}

# The agent as one word, and behind the daemon.
wrappers() {
    printf '#!/bin/sh\nexec %s\n' "$("$tools/agent" "$host_agent" cmd)" >"$work/direct"
    printf '#!/bin/sh\nexec "%s" acp --agent "%s"\n' "$ACPVISOR" "$host_agent" >"$work/via"
    chmod +x "$work/direct" "$work/via"
}

run_python() {
    printf 'hi [[say: ok]]\n[[shell: echo x]]\n' | timeout 120 "$tools/ns.sh" "$python_sdk" "$python_host" "$work/$1"
}
# The agent's words, however they were cut into pieces, and what the host itself calls an error.
count_python() { sed -n 's/^\(> \)*| Agent: //p; /^ERROR/p' | tr -d '\n'; echo; }

run_typescript() {
    timeout 180 "$tools/ns.sh" node "$tools/ts-client.mjs" "$typescript_sdk" "$work/$1" 'hi [[say: ok]]' '[[shell: echo x]]'
}
count_typescript() { grep '^\(INIT\|PERM\|STOP\)'; }

stop_daemon() {
    "$ACPVISOR" stop >/dev/null || fail "acpvisor stop failed"
    local code=0
    wait_for 10 eval "! kill -0 $daemon" || fail "the daemon runs on after stop"
    wait "$daemon" || code=$?
    [ "$code" -eq 0 ] || fail "the daemon ended with $code"
    daemon=
    [ ! -e "$XDG_RUNTIME_DIR/acpvisor/host.sock" ] || fail "the daemon left its socket"
}

write_config "$@" "$host_agent"
start_mock
start_daemon
for agent in "$@"; do drive "$agent"; done
wrappers
[ ! -x "$python_sdk" ] || compare_host python count_python run_python
[ ! -f "$typescript_sdk" ] || compare_host typescript count_typescript run_typescript
stop_daemon

printf '\n%-20s%-13s%-13s%-13s%-13s%-13s%-13s\n' agent initialize session/new prompt permission cancel close
for agent in "$@"; do judge "$agent" || failures=$((failures + 1)); done
cat "$work/hosts" 2>/dev/null || true
[ "$failures" -eq 0 ] || exit 1
