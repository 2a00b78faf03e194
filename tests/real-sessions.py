"""What tests/real-sessions.sh plays: sessions of one real agent that outlive a killed daemon, seen by an editor.

usage: real-sessions.py TOOLS ACPVISOR WORK PLACE AGENT

An editor speaks to a daemon through `acpvisor acp`, the agent stands behind a recorder, and the model mock keeps what
it was asked. One line a step is printed; exit 1 when one was wrong.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

TOOLS, ACPVISOR, WORK, PLACE, AGENT = sys.argv[1:6]
sys.path.insert(0, TOOLS)
import driver  # noqa: E402  the scripted editor; it makes this process the reaper of all that is started here

HOME = pathlib.Path(os.environ["ACP_AGENTS_HOME"])
BODIES = HOME / "logs" / "bodies.ndjson"
KNOWN = json.loads(pathlib.Path(TOOLS, "agents.json").read_text())[AGENT]
ENDED = ("completed", "failed")
# What has no model behind it plays one turn of its own, or says back what it was told.
MODEL = AGENT not in ("ts-example", "py-example", "py-echo")
CUT_OFF = MODEL or AGENT == "ts-example"
# Some agents refuse a long sleep.
WAITS = f"tail -s {os.getpid()} -f /dev/null"
# Some agents keep what was said only after a while.
PAUSE = float(os.environ.get("PAUSE_S", "0"))
FACT = f"FACT{os.getpid()}{os.urandom(3).hex()}"

faults = []


def step(name, right, seen=""):
    """Prints how a step went."""
    text = seen if isinstance(seen, str) else json.dumps(seen, ensure_ascii=False)
    print(f"  {'ok   ' if right else 'WRONG'} {name}{': ' if text else ''}{text[:1500]}", flush=True)
    if not right:
        faults.append(name)
    return right


def wait_for(check, seconds):
    end = time.time() + seconds
    while not check():
        if time.time() > end:
            return False
        time.sleep(0.1)
    return True


class Editor(driver.Agent):
    """A connection through the bridge. Keeps every message in the order of the wire."""

    def __init__(self, number):
        self.seen = []
        args = argparse.Namespace(cmd=[ACPVISOR, "acp", "--no-start", "--agent", AGENT], env=[], perm="allow", caps="full")
        super().__init__(args, f"{WORK}/{AGENT}.editor-{number}.ndjson", PLACE)
        self.initialized = self.initialize()
        if "auth" in KNOWN:
            self.call("authenticate", {"methodId": KNOWN["auth"]}, 60)

    def incoming(self, m):
        self.seen.append(m)
        super().incoming(m)

    def open(self, method, session):
        """Loads or resumes: the answer, and what came before and after it."""
        start = len(self.seen)
        request = self.start(method, {"sessionId": session, "cwd": PLACE, "mcpServers": []})
        try:
            answer = self.wait(request, 120) or {}
        except driver.RpcError as error:
            answer = {"error": error.e}
        time.sleep(1)
        seen = self.seen[start:]
        at = next((i for i, m in enumerate(seen) if "method" not in m and m.get("id") == request), len(seen))
        return answer, seen[:at], seen[at + 1 :]

    def ask(self, session, text, seconds=90):
        """One turn: its end, and all that was seen of it."""
        start = len(self.seen)
        request = self.prompt_start(session, text)
        try:
            end = (self.prompt_wait(session, request, seconds) or {}).get("stopReason")
        except (driver.RpcError, driver.Timeout) as error:
            end = str(error)
        time.sleep(0.7)
        return end, self.seen[start:]

    def leave(self):
        self.p.stdin.close()
        try:
            return self.p.wait(10)
        except subprocess.TimeoutExpired:
            self.p.kill()
            return "did not end"


class Daemon:
    def __init__(self):
        self.number = 0

    def start(self):
        self.number += 1
        log = open(f"{WORK}/{AGENT}.daemon-{self.number}", "w")
        self.process = subprocess.Popen([ACPVISOR, "daemon"], stdout=log, stderr=log)
        up = [ACPVISOR, "status"]
        if not wait_for(lambda: subprocess.run(up, capture_output=True).returncode == 0, 20):
            step("the daemon answers", False)
            sys.exit(1)

    def kill(self):
        self.process.kill()
        self.process.wait()


def running():
    """What runs below this process but the daemon and the bridges."""
    return [p for p in driver.descend(os.getpid()) if p["state"] != "Z" and f"{ACPVISOR} " not in p["cmd"]]


class Wire:
    """What crossed the agent's own stdin and stdout, a file a process."""

    def __init__(self):
        self.known = set()

    def fresh(self):
        """The lines of the processes that were started since the last call, oldest process first."""
        paths = [p for p in pathlib.Path(WORK).glob(f"{AGENT}.wire-*") if p not in self.known]
        self.known |= set(paths)
        runs = [[json.loads(line) for line in p.read_text().splitlines()] for p in paths]
        return sorted((run for run in runs if run), key=lambda run: run[0].get("epoch", 0))


def requests(run):
    """What the daemon sent to a process."""
    return [r["msg"] for r in run if r["dir"] == "c2a" and "method" in r.get("msg", {})]


def answer_of(run, method):
    """The agent's own answer to the first request of that name."""
    request = next(m["id"] for m in requests(run) if m["method"] == method)
    answers = (r["msg"] for r in run if r["dir"] == "a2c" and "method" not in r.get("msg", {"method": 0}))
    return next(m.get("result") or {} for m in answers if m.get("id") == request)


# ---- what an editor would show

FIELDS = ("title", "kind", "status", "content", "locations", "rawInput", "rawOutput")


class View:
    """Messages and tool cards, in order, as an editor builds them."""

    def __init__(self):
        self.items, self.cards, self.last, self.prompted = [], {}, {}, ""

    def prompt(self, text):
        # A tool call of a former turn is another one, whatever its id.
        self.cards = {}
        self.items.append(["user", None, text])
        self.prompted = text
        return self

    def take(self, messages):
        for m in messages:
            params = m.get("params") or {}
            if m.get("method") == "session/update":
                self.update(params["update"])
            elif m.get("method") == "session/request_permission":
                # It announces a call that nothing else announced.
                if params["toolCall"]["toolCallId"] not in self.cards:
                    self.card(params["toolCall"], True)
        return self

    def update(self, u):
        kind = u["sessionUpdate"]
        if kind in ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"):
            who = kind.split("_")[0 if kind[0] == "u" else 1]
            self.chunk(who, u.get("messageId"), u["content"])
        elif kind in ("tool_call", "tool_call_update"):
            self.card(u, kind == "tool_call")
        else:
            self.last.setdefault(kind, {}).update({k: v for k, v in u.items() if k != "sessionUpdate"})

    def chunk(self, who, message, content):
        text = content.get("text") if content.get("type") == "text" else json.dumps(content, sort_keys=True)
        if who == "user":
            # Some agents say the prompt back.
            if text == self.prompted:
                return
            self.cards = {}
        if self.items and self.items[-1][:2] == [who, message]:
            self.items[-1][2] += text
        else:
            self.items.append([who, message, text])

    def card(self, u, whole):
        call = u["toolCallId"]
        card = self.cards.get(call)
        if card is None:
            card = self.cards[call] = {}
            self.items.append(["tool", call, card])
        elif whole:
            card.clear()
        card.update({k: u[k] for k in FIELDS if u.get(k) is not None})

    def cut(self):
        """The daemon went: what was open has failed."""
        for card in self.cards.values():
            if card.get("status") not in ENDED:
                card["status"] = "failed"
        return self

    def lines(self):
        """Without message ids, consecutive text of one speaker and message joined; defaults of the protocol written out."""
        lines = []
        for who, name, what in self.items:
            if who == "tool":
                what = {"status": "pending", "kind": "other", **what}
                what = {k: v for k, v in what.items() if v != []}
                lines.append(f"tool {name} {json.dumps(what, sort_keys=True, ensure_ascii=False)}")
            else:
                lines.append(f"{who}: {what}")
        return lines


def same(name, live, shown):
    a, b = live.lines(), shown.lines()
    if step(name, a == b, f"{len(b)} items"):
        return
    for i in range(max(len(a), len(b))):
        x, y = (a[i] if i < len(a) else "nothing"), (b[i] if i < len(b) else "nothing")
        if x != y:
            print(f"      {i} live  {x[:900]}\n      {i} shown {y[:900]}", flush=True)


# ---- modes and options

WISHES = ("ask", "autoEdit", "default", "high", "plan")


def settings(new):
    """Which mode and which option of an agent to set: [(method, params)]."""
    out = []
    modes = new.get("modes") or {}
    ids = [m["id"] for m in modes.get("availableModes", [])]
    mode = next((w for w in WISHES if w in ids and w != modes.get("currentModeId")), None)
    if mode:
        out.append(("session/set_mode", {"modeId": mode}))
    for option in new.get("configOptions") or []:
        if option.get("category") == "model":
            continue
        values = [v.get("value") for v in option.get("options", [])]
        value = next((w for w in WISHES if w in values and w != option.get("currentValue")), None)
        if value and not (mode and option["id"] == "mode"):
            out.append(("session/set_config_option", {"configId": option["id"], "value": value}))
            break
    return out


def is_set(method, params, before_prompt):
    for m in before_prompt:
        p = m["params"]
        if m["method"] == method and all(p.get(k) == v for k, v in params.items()):
            return True
        # A mode may be set as the option that it also is.
        if method == "session/set_mode" and p.get("configId") == "mode" and p.get("value") == params["modeId"]:
            return True
    return False


def check_process(name, run, wanted, question):
    """What a new process heard before its first prompt, and with it."""
    heard = requests(run)
    at = next((i for i, m in enumerate(heard) if m["method"] == "session/prompt"), None)
    if at is None:
        return step(f"{name}: the new process is prompted", False, [m["method"] for m in heard])
    before, prompt = heard[:at], heard[at]
    ways = [m["method"] for m in before if m["method"] in ("session/load", "session/resume", "session/new")]
    way = ways[-1] if ways else "nothing"
    print(f"        {name}: {', '.join(m['method'] for m in before)}, session/prompt")
    for method, params in wanted:
        step(f"{name}: {method} {list(params.values())} comes before the first prompt", is_set(method, params, before))
    blocks = [b.get("text", "") for b in prompt["params"]["prompt"]]
    told = any(FACT in b for b in blocks if question not in b)
    if MODEL:
        asked = [line for line in body_lines() if question in line]
        step(f"{name}: the model sees what was said", any(FACT in line for line in asked),
             f"{way}{', transcript' if told else ''}, {len(asked)} requests")
    else:
        step(f"{name}: the agent is told what was said", told, f"{way}, {[b[:60] for b in blocks]}")
    step(f"{name}: a transcript is told only where nothing else was done", told == (way == "session/new"), way)


def body_lines():
    if not BODIES.exists():
        return []
    with open(BODIES, errors="replace") as f:
        f.seek(BODIES_START)
        return f.readlines()


BODIES_START = BODIES.stat().st_size if BODIES.exists() else 0


def talk(editor, session, live, name, text, question=None):
    live.prompt(text)
    end, seen = editor.ask(session, text)
    live.take(seen)
    step(f"{name}: the turn ends", end == "end_turn", str(end))


def main():
    os.makedirs(PLACE, exist_ok=True)
    daemon, wire, live = Daemon(), Wire(), View()
    daemon.start()
    editor = Editor(1)
    able = editor.initialized["agentCapabilities"]
    step("load, list, resume, close, delete are offered", bool(able.get("loadSession")) and
         all(k in able.get("sessionCapabilities", {}) for k in ("list", "resume", "close", "delete")), able)
    new = editor.new()
    session = new["sessionId"]
    # The daemon adds settings of its own, which no agent hears of.
    wanted = settings(answer_of(wire.fresh()[-1], "session/new"))
    for method, params in wanted:
        try:
            editor.call(method, {"sessionId": session, **params}, 60)
            step(f"{method} {list(params.values())}", True)
        except (driver.RpcError, driver.Timeout) as error:
            step(f"{method} {list(params.values())}", False, str(error))
    live.take(editor.seen)
    talk(editor, session, live, "the fact", f"The name of the key is {FACT}. [[think: a name]] [[shell: echo tool-ran]] [[say: I keep it.]]")
    step("a tool was called", not CUT_OFF or bool(live.cards), list(live.cards))

    # In the middle of a turn.
    if CUT_OFF:
        text = f"And now wait. [[shell: {WAITS}]]"
        live.prompt(text)
        start = len(editor.seen)
        editor.perm = "allow" if MODEL else "never"
        editor.perm_seen.clear()
        request = editor.prompt_start(session, text)
        under_way = (lambda: any(WAITS in p["cmd"] for p in running())) if MODEL else editor.perm_seen.is_set
        step("the second turn is under way", wait_for(under_way, 60))
        time.sleep(1.5 + PAUSE)
        daemon.kill()
        killed = time.time()
        try:
            answer = editor.wait(request, 5)
        except (driver.RpcError, driver.Timeout) as error:
            answer = str(error)
        step("the bridge answers the cut-off prompt at once", "EOF" not in str(answer) and "no answer" not in str(answer), str(answer))
        live.take(editor.seen[start:]).cut()
        print(f"        open calls: {[(c, v.get('status')) for c, v in live.cards.items()]}; last updates of the session: {list(live.last)}")
    else:
        daemon.kill()
        killed = time.time()
    gone = wait_for(lambda: not running(), 5)
    step("nothing runs 5 s after the daemon was killed", gone, f"{time.time() - killed:.1f} s {[p['cmd'][:80] for p in running()]}")
    step("the bridge ends", editor.leave() != "did not end")

    # Loaded by another connection of another daemon.
    daemon.start()
    editor = Editor(2)
    listed = editor.call("session/list", {"cwd": PLACE}, 30)["sessions"]
    mine = [s for s in listed if s["sessionId"] == session]
    step("session/list names the session", len(mine) == 1 and mine[0]["cwd"] == PLACE, mine)
    title = live.last.get("session_info_update", {}).get("title")
    step("under its title", mine and mine[0].get("title") == title, str(title))
    answer, before, after = editor.open("session/load", session)
    shown = View().take(before)
    step("session/load is answered", "error" not in answer, {k: v if k == "error" else "..." for k, v in answer.items()})
    same("session/load shows what was seen live", live, shown)
    print(f"        states shown: {list(shown.last)}, seen live: {list(live.last)}; after the answer: "
          f"{[m.get('params', {}).get('update', {}).get('sessionUpdate') or m.get('method') for m in after]}")
    step("nothing of the history comes after the answer", not View().take(after).items)
    for method, params in wanted:
        modes, options = answer.get("modes") or {}, answer.get("configOptions") or []
        now = modes.get("currentModeId") if method == "session/set_mode" else next(
            (o["currentValue"] for o in options if o["id"] == params["configId"]), None)
        step(f"the answer says {list(params.values())}", now == list(params.values())[-1], str(now))
    talk(editor, session, live, "after load", "LOADQ What is its name? [[say: I know it.]]")
    check_process("after load", (wire.fresh() or [[]])[-1], wanted, "LOADQ")

    # Resumed.
    time.sleep(PAUSE)
    daemon.kill()
    editor.leave()
    step("nothing runs 5 s after the daemon was killed again", wait_for(lambda: not running(), 5), [p["cmd"][:80] for p in running()])
    daemon.start()
    editor = Editor(3)
    answer, before, after = editor.open("session/resume", session)
    step("session/resume is answered", "error" not in answer, answer if "error" in answer else list(answer))
    step("session/resume shows nothing", not View().take(before + after).items, View().take(before + after).lines())
    talk(editor, session, live, "after resume", "RESUMEQ What is its name? [[say: I know it still.]]")
    check_process("after resume", (wire.fresh() or [[]])[-1], wanted, "RESUMEQ")

    # Closed, loaded again, deleted.
    step("session/close is answered", editor.call("session/close", {"sessionId": session}, 30) == {})
    answer, before, after = editor.open("session/load", session)
    step("a closed session is loaded", "error" not in answer, answer.get("error", ""))
    same("it shows everything again", live, View().take(before))
    step("session/delete is answered", editor.call("session/delete", {"sessionId": session}, 60) in ({}, None))
    answer, before, after = editor.open("session/load", session)
    step("a deleted session is unknown", answer.get("error", {}).get("code") == -32002 and not before, answer)
    listed = editor.call("session/list", {"cwd": PLACE}, 30)["sessions"]
    step("session/list no longer names it", session not in [s["sessionId"] for s in listed])
    editor.leave()
    step("no agent process is left", wait_for(lambda: not running(), 20), [p["cmd"][:80] for p in running()])
    subprocess.run([ACPVISOR, "stop"], capture_output=True)
    step("the daemon stops", daemon.process.wait(10) == 0)
    kept = [str(p) for root in ("STATE_HOME", "DATA_HOME", "RUNTIME_DIR", "CACHE_HOME") for p in pathlib.Path(os.environ[f"XDG_{root}"]).rglob("*")
            if p.is_file() and FACT.encode() in p.read_bytes()]
    step("no file of the daemon holds what was deleted", not kept, kept)


try:
    main()
except Exception as error:  # the rest cannot be played
    step("the play goes on to its end", False, repr(error))
finally:
    for process in driver.descend(os.getpid()):
        try:
            os.kill(process["pid"], 9)
        except OSError:
            pass
sys.exit(bool(faults))
