# Runs the program of one attempt as its child and writes down how it ended. POSIX sh; of other programs it needs sleep
# alone, and that only for limits of time. Arguments: run time in seconds or 0, grace in seconds, longest file in blocks
# of 512 bytes or 0, and then the program.
# It is begun at most once: a second start finds the mark of the first and runs nothing.
place=/.placet
limit=$1 grace=$2 blocks=$3
shift 3
(
    set -C
    : >"$place/begun"
) 2>/dev/null || exit 97
[ -r "$place/secrets" ] && . "$place/secrets"

asked=0 late=0 forced=0 child=

number() { # of a word in a file of "word number" lines
    [ -r "$2" ] || return 1
    while read -r word value _; do
        [ "$word" = "$1" ] && echo "$value" && return 0
    done <"$2"
    return 1
}
fact() { # name, value: only if there is a value
    [ -n "$2" ] && echo "$1 $2"
}
first() { # the first line of the first file that is there
    for file in "$@"; do
        [ -r "$file" ] && read -r line <"$file" && echo "$line" && return 0
    done
    return 1
}
later() { # seconds, signal: to this shell, from a process that leaves nothing open
    (
        trap - TERM INT HUP
        sleep "$1" && kill -"$2" $$
    ) </dev/null >/dev/null 2>&1 &
}
end() {
    [ -n "$child" ] && kill -TERM "$child" 2>/dev/null
    later "$grace" USR2
}
trap 'asked=1; end' TERM
trap 'asked=1; end' INT
trap 'late=1; end' USR1
trap 'forced=1; [ -n "$child" ] && kill -KILL "$child" 2>/dev/null' USR2

(
    trap - TERM INT USR1 USR2
    trap ': >"$place/unstarted"' EXIT
    ulimit -c 0 2>/dev/null
    [ "$blocks" = 0 ] || ulimit -f "$blocks" || exit 126
    exec "$@"
) &
child=$!
[ "$asked" = 1 ] && kill -TERM "$child" 2>/dev/null
[ "$limit" != 0 ] && later "$limit" USR1
while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break
done

memory=/sys/fs/cgroup
{
    echo "code $code"
    echo "asked $asked"
    echo "late $late"
    echo "forced $forced"
    [ -e "$place/unstarted" ] && echo "unstarted 1"
    fact oom "$(number oom_kill $memory/memory.events || number oom_kill $memory/memory/memory.oom_control)"
    fact peak "$(first $memory/memory.peak $memory/memory/memory.max_usage_in_bytes)"
    fact cpu_us "$(number usage_usec $memory/cpu.stat)"
    fact cpu_ns "$(first $memory/cpuacct/cpuacct.usage $memory/cpu,cpuacct/cpuacct.usage)"
    echo "end 1"
} >"$place/exit"
exit "$code"
