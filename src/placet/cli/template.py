"""The spec that ``placet init`` writes: short, true, and every line of it explained. A test keeps it valid."""

TEMPLATE = """\
# A workload: what must run, and within which bounds. Placet decides where.
#
#   placet validate workload.yaml     check it, every mistake at once
#   placet estimate workload.yaml     what would happen, and what it may cost
#   placet run workload.yaml          run it and wait for its result
#
# All fields: `placet schema`, or the reference of the spec in the documentation.

name: my-workload            # for people and lists

runtime:
  type: process              # a command on the machine that is chosen; also: python, container
  command: [sh, -c, 'wc -w < "$PLACET_INPUTS/text" > "$PLACET_OUTPUTS/words.txt"']
  # A script with pinned requirements, installed once and cached:
  # type: python
  # script: work.py
  # arguments: [--verbose]
  # requirements: [numpy==2.4.0]

resources:                   # strict: an offer that has less is not chosen
  cpu_cores: 1
  system_memory_gb: 0.5      # a bare number is GB; 24GB and 24GiB are understood, too
  # minimum_gpu_memory_gb: 24
  # disk_gb: 10

constraints:
  maximum_runtime_seconds: 10m
  maximum_estimated_cost: $1 # no offer that is expected to cost more is chosen
  # deadline: +2h            # or a date with a zone: 2027-01-31T18:00:00+01:00
  # preferred_startup_latency_seconds: 120

inputs:                      # found at $PLACET_INPUTS/<name>, that is /inputs/<name>
  - name: text
    text: The quick brown fox jumps over the lazy dog.
  # - {name: data, source: ./data}                       # a file or folder; relative to this file
  # - {name: weights, source: https://host.example/weights.bin}
  # - {name: dataset, source: storage://datasets/batch}  # an alias from the server's settings

outputs:                     # what the workload hands back, with size and digest
  - name: words
    path: /outputs/words.txt
  # - {name: metrics, path: metrics.json, required: false}

# repeat: safe               # what running it twice would do: safe, resumable, at_most_once
# retry: {attempts: 2}       # tries in all when the program itself fails
# environment: {MODE: fast}  # the program sees these and PLACET_*, nothing else
# labels: {team: research}   # to find it by: placet ls --label team=research
"""
