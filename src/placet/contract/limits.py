"""How large a spec document may be; all limits act before the content is looked at."""

JSON_BYTES_MAX = 2**20
# YAML of one mebibyte takes seconds to read even with the C library, JSON some hundredths of one.
YAML_BYTES_MAX = 64 * 2**10
DEPTH_MAX = 64
KEYS_PER_MAP_MAX = 1_000
PROBLEMS_MAX = 100

INTEGER_MAX = 2**63 - 1
# Longer than any quantity; int() of thousands of digits is slow and then refused by the interpreter.
NUMBER_CHARACTERS_MAX = 40
DECIMAL_EXPONENT_MAX = 30
# Lines of larger documents are not looked for: those are written by machines.
LINES_BYTES_MAX = 256 * 2**10

NAME_CHARACTERS_MAX = 63
TEXT_CHARACTERS_MAX = 2**19
PATH_CHARACTERS_MAX = 1_024
SOURCE_CHARACTERS_MAX = 4_096
LABELS_MAX = 64
LABEL_CHARACTERS_MAX = 256
METADATA_CHARACTERS_MAX = 1_024
KEY_CHARACTERS_MAX = 255
INPUTS_MAX = 1_000
ARRAY_MAX = 10_000
