"""The first program on a machine that is not ours, in POSIX sh: finds a Python for the runner.

Where there is none it runs a plain program itself, by ``plain.sh`` in the attempt's folder: claim, permit, run, time
limit, stop, logs, and the record of the end. What needs more is refused before anything runs, and says why.
"""

from __future__ import annotations

import json
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping

    Json = Dict[str, Any]

# What the reduced way needs to know, in words of sh; written beside the order.
PLAIN = "plain.sh"
WITHIN_S = 900

TEXT = r"""#!/bin/sh
# usage: bootstrap.sh RUNNER FOLDER
# Looks for Python 3.8 or newer, and runs RUNNER with it for the attempt in FOLDER. Without one it runs what it can.
runner=$1
folder=$2
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
for name in "$PLACET_PYTHON" python3 /usr/libexec/platform-python \
    python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python; do
    [ -n "$name" ] || continue
    command -v "$name" >/dev/null 2>&1 || continue
    "$name" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 || continue
    exec "$name" -I -S -B "$runner" "$folder"
done

# The reduced way. A document appears whole, by its last name.
umask 077
cd "$folder" || exit 96
[ -f order.json ] && [ -f plain.sh ] && [ ! -f stop.json ] || exit 96
key= nonce= deployment= workload= epoch=1 limit= grace=10 within=900 log_bytes=1000000000 lacks= report=
. ./plain.sh
now() { echo "$(date +%s)000"; }
host=$(uname -n)
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
identity="$(printf %.8s "${boot:-unknown}").$$.$(now)"
created=$(now) started=null
size() { if [ -f "$1" ]; then wc -c <"$1" | tr -d ' '; else echo 0; fi; }
# said PHASE CAUSE DETAIL CODE SIGNAL RAN: the status, and once there is a cause the record of the end.
said() {
    out=$(size run/logs/stdout) err=$(size run/logs/stderr)
    sealed=false end=
    if [ -n "$2" ]; then
        sealed=true
        end=$(printf ',"problem":"","cause":"%s","detail":"%s","exit_code":%s,"signal":%s' "$2" "$3" "$4" "$5"
            printf ',"ended_ms":%s,"exited_ms":%s,"usage":{}' "$ended" "$ended")
    fi
    text=$(printf '{"key":"%s","nonce":"%s","deployment":"%s"' "$key" "$nonce" "$deployment"
    printf ',"workload_id":"%s","epoch":%s,"incarnation":"%s"' "$workload" "$epoch" "$identity"
    printf ',"sequence":%s,"phase":"%s","phases":[],"observed_ms":%s' "$(now)" "$1" "$(now)"
    printf ',"created_ms":%s,"started_ms":%s,"ran":%s' "$created" "$started" "$6"
    printf ',"evidence":{"reduced":"no Python"}'
    printf ',"logs":{"stdout":{"bytes_total":%s,"bytes_kept":%s,"sealed":%s,"gaps":[]}' "$out" "$out" "$sealed"
    printf ',"stderr":{"bytes_total":%s,"bytes_kept":%s,"sealed":%s,"gaps":[]}}' "$err" "$err" "$sealed"
    printf '%s,"outputs":[],"missing":[],"skipped":[]}' "$end")
    [ -z "$2" ] || { printf '%s\n' "$text" >run/exit.json.new && mv -f run/exit.json.new run/exit.json; }
    printf '%s\n' "$text" >status.json.new && mv -f status.json.new status.json
}
mkdir -p run/logs run/work
{
    printf '{"identity":"%s","host":"%s","pid":%s,"reported":{' "$identity" "$host" "$$"
    comma=
    for name in $report; do
        eval "value=\${$name:-}"
        printf '%s"%s":"%s"' "$comma" "$name" "$value"
        comma=,
    done
    printf '}}\n'
} >"claim.$identity"
ln "claim.$identity" claim.json 2>/dev/null
cmp -s "claim.$identity" claim.json
held=$?
rm -f "claim.$identity"
[ "$held" = 0 ] || { echo "placet: this attempt is run by another; nothing is done here" >&2; exit 94; }
if [ -f secrets.sh ]; then . ./secrets.sh; fi
rm -f secrets.sh secrets.json
if [ -n "$lacks" ]; then
    ended=$(now)
    said ended environment "no Python 3.8 or newer on $host, without which there are no $lacks" null null false
    exit 93
fi
waited=0
while [ ! -f permit.json ] && [ ! -f stop.json ] && [ "$waited" -lt "$within" ]; do
    said accepted "" "" null null false
    sleep 1
    waited=$((waited + 1))
done
ended=$(now)
if [ -f stop.json ]; then said ended stopped "stopped on request before it began" null null false; exit 93; fi
if ! grep -q "\"$nonce\"" permit.json 2>/dev/null || ! grep -Eq '"granted": ?true' permit.json; then
    said ended permit_refused "the permit was refused, or nobody answered" null null false
    exit 93
fi
told=
trap 'told=1; [ -z "$child" ] || kill -TERM "-$child" 2>/dev/null' TERM
if command -v setsid >/dev/null 2>&1; then session=setsid; else session=; set -m; fi
$session /bin/sh -c 'cd run/work && . ../../plain.sh && program' >run/logs/stdout 2>run/logs/stderr </dev/null &
child=$!
started=$(now)
said running "" "" null null true
ran=0 why= killed=
while kill -0 "$child" 2>/dev/null; do
    sleep 1
    ran=$((ran + 1))
    if [ -z "$why" ]; then
        if [ -n "$told" ]; then why=host
        elif [ -f stop.json ]; then why=stopped; kill -TERM "-$child" 2>/dev/null
        elif [ -n "$limit" ] && [ "$ran" -ge "$limit" ]; then why=timeout; kill -TERM "-$child" 2>/dev/null
        elif [ "$(size run/logs/stdout)" -gt "$log_bytes" ] || [ "$(size run/logs/stderr)" -gt "$log_bytes" ]; then
            why=disk_limit; kill -KILL "-$child" 2>/dev/null
        fi
        since=$ran
    elif [ $((ran - since)) -ge "$grace" ]; then kill -KILL "-$child" 2>/dev/null
    fi
    [ $((ran % 10)) != 0 ] || said running "" "" null null true
done
wait "$child"
code=$?
kill -KILL "-$child" 2>/dev/null
ended=$(now)
if [ -n "$why" ]; then said ended "$why" "ended: $why" null null true; exit 93; fi
if [ "$code" = 127 ] || [ "$code" = 126 ]; then
    if [ -f run/unbegun ]; then
        started=null
        said ended start_failed "the program cannot be begun" null null false
        exit 93
    fi
fi
if [ "$code" = 137 ]; then said ended killed "killed by SIGKILL, or ended with code 137" null 9 true; exit 137; fi
if [ "$code" -gt 128 ]; then
    said ended signalled "ended by signal $((code - 128))" null $((code - 128)) true
    exit "$code"
fi
said ended exited "exited with code $code" "$code" null true
exit "$code"
"""


def plain(order: Json) -> str:
    """``plain.sh`` of an order: what the reduced way sources. Every value is one quoted word; no secret is in it."""
    launch = order["launch"]
    limits = launch.get("limits") or {}
    words = {
        "key": launch["key"],
        "nonce": launch["nonce"],
        "deployment": launch["deployment"],
        "workload": launch["workload_id"],
        "epoch": launch["epoch"],
        "limit": "" if limits.get("runtime_s") is None else max(1, int(limits["runtime_s"])),
        "grace": int(limits.get("grace_s") or 0),
        "log_bytes": limits.get("log_bytes") or 0,
        "lacks": lacks(launch),
        "within": int(order.get("permit_within_s") or WITHIN_S),
        # Names of variables, which the shell takes apart.
        "report": " ".join(name for name in order.get("report_env") or () if name.isidentifier()),
    }
    # They become parts of JSON texts.
    lines = [f"{name}={shlex.quote(json.dumps(str(value))[1:-1])}" for name, value in words.items()]
    folder = launch.get("workdir")
    steps = ["unbegun=$PWD/../unbegun", *exports(launch.get("env") or {})]
    steps += [f"export PLACET_ATTEMPT_KEY={shlex.quote(launch['key'])}", f"export PLACET_ATTEMPT={launch['epoch']}"]
    steps += [f"cd {shlex.quote(folder)}"] if folder else []
    command = [shlex.quote(word) for word in launch.get("command") or ("false",)]
    steps += [f'command -v {command[0]} >/dev/null 2>&1 || {{ : >"$unbegun"; exit 127; }}', "exec " + " ".join(command)]
    return "\n".join([*lines, "program() {", *("    " + step for step in steps), "}", ""])


def exports(values: Mapping[str, str]) -> list[str]:
    """Lines of sh that put values into the environment."""
    return [f"export {shlex.quote(name + '=' + value)}" for name, value in sorted(values.items())]


def lacks(launch: Json) -> str:
    """What of a launch cannot be had without Python, in words; empty where a plain program is all."""
    words = (("inputs", "inputs"), ("outputs", "outputs"), ("python", "Python environments"))
    return " and ".join(word for name, word in words if launch.get(name))
