"""Every code a refusal or a warning can carry: what it means and what to do. Codes never change their meaning."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Where a code is met."""

    SPEC = "spec"
    WARNING = "warning"
    REQUEST = "request"
    PLACEMENT = "placement"


@dataclass(frozen=True, kw_only=True)
class Code:
    """One stable code; ``status`` is the HTTP status it travels with when it is the whole reply."""

    code: str
    scope: Scope
    title: str
    meaning: str
    remedy: str
    status: int = 422


def _code(scope: Scope, code: str, title: str, meaning: str, remedy: str, *, status: int = 422) -> Code:
    return Code(code=code, scope=scope, title=title, meaning=meaning, remedy=remedy, status=status)


_S, _W, _R, _P = Scope.SPEC, Scope.WARNING, Scope.REQUEST, Scope.PLACEMENT

_DOCUMENT = (
    _code(
        _S,
        "invalid_spec",
        "The spec has mistakes",
        "At least one mistake was found; `errors` lists all of them.",
        "Mend each listed mistake; `placet validate FILE` shows them with their lines.",
    ),
    _code(
        _S,
        "syntax_error",
        "Not well-formed",
        "The text is neither well-formed JSON nor well-formed YAML.",
        "Mend the line that is named; the mistake may stand just before it.",
    ),
    _code(_S, "empty_document", "Nothing there", "The document is empty.", "Start from `placet init`."),
    _code(
        _S,
        "many_documents",
        "More than one document",
        "A YAML file may hold several documents; a spec is exactly one.",
        "Keep one document and remove the line `---`, or submit each by itself.",
    ),
    _code(
        _S,
        "too_large",
        "Too large",
        "The document, a mapping, a list or a text exceeds its limit.",
        "Pass large data as an input; keep lists and texts to what is stated.",
        status=413,
    ),
    _code(
        _S,
        "too_deep",
        "Nested too deeply",
        "Lists and mappings are nested more than 64 deep; no spec needs more than six.",
        "Remove the nesting.",
    ),
    _code(
        _S,
        "alias_refused",
        "Anchors and aliases are refused",
        (
            "YAML anchors (`&x`), aliases (`*x`) and merge keys (`<<`) let a short text grow without bound and "
            "hide what is asked."
        ),
        "Write the value out where it is needed.",
    ),
    _code(
        _S,
        "tag_refused",
        "Tags are refused",
        "YAML tags (`!x`, `!!python/...`) change the type of a value behind the reader's back.",
        "Remove the tag; put text in quotes.",
    ),
    _code(
        _S,
        "duplicate_key",
        "Said twice",
        "The same field is given twice, perhaps once in each naming style; readers would disagree on which counts.",
        "Keep one of the two.",
    ),
    _code(
        _S,
        "bad_key",
        "A key is not text",
        "The name of a field must be plain text.",
        "Write the key as text.",
    ),
    _code(
        _S,
        "not_a_number",
        "Not a number",
        "NaN and infinities are no quantities.",
        "Give a finite number, or leave the field out.",
    ),
    _code(
        _S,
        "number_too_large",
        "Number too large",
        "The number does not fit in 64 bits.",
        "Give a smaller number.",
    ),
    _code(
        _S,
        "number_too_small",
        "Number too near to zero",
        "No quantity of a spec is counted so finely.",
        "Give 0 or a larger number, or leave the field out.",
    ),
    _code(
        _S,
        "bad_text",
        "Text with forbidden characters",
        "The text is not valid UTF-8, or holds NUL, another control character or half of a surrogate pair.",
        "Remove the character; pass binary data as an input.",
    ),
)

_FIELDS = (
    _code(
        _S,
        "unknown_field",
        "Unknown field",
        "No field of that name exists here; a misspelt requirement must not be ignored silently.",
        "Use the suggested name, or remove the field; `placet schema` lists all.",
    ),
    _code(_S, "missing_field", "Missing field", "A field without a default is not given.", "Add the field."),
    _code(
        _S,
        "wrong_type",
        "Wrong type",
        "The value is of another type than the field; nothing is converted silently.",
        "Write the value as shown; text that looks like a number needs quotes.",
    ),
    _code(
        _S,
        "out_of_range",
        "Out of range",
        "The value is well written and outside what is accepted.",
        "Stay within the stated bounds.",
    ),
    _code(
        _S,
        "not_an_option",
        "Not one of the options",
        "The field takes one of a few words.",
        "Use one of the listed words.",
    ),
    _code(
        _S,
        "bad_unit",
        "Not a quantity",
        "The number or its unit cannot be read.",
        "Write for example 24, 24GB or 24GiB; 90, 90s or 2h; 5 or $5.",
    ),
    _code(
        _S,
        "bad_date",
        "Not a date",
        "The date cannot be read or has no time zone.",
        "Write for example 2027-01-31T18:00:00+01:00, or +2h for a time from now.",
    ),
    _code(
        _S,
        "bad_name",
        "Not a name",
        "Names are used in paths and variables and are therefore narrow.",
        "Write it like the example that is given; most have at most 63 letters, digits, `.`, `_` and `-`.",
    ),
    _code(
        _S,
        "reserved_name",
        "Reserved name",
        "Variables that begin with PLACET_ are set by Placet.",
        "Choose another name.",
    ),
    _code(
        _S,
        "duplicate_name",
        "Name used twice",
        "Two inputs, outputs or volumes share a name or a place.",
        "Rename one of them.",
    ),
    _code(
        _S,
        "bad_path",
        "Path not allowed",
        "The path leaves the place it must stay in, or cannot be a path.",
        "Write it like the example that is given: below the stated folder, without `..`.",
    ),
    _code(
        _S,
        "bad_source",
        "Source not understood",
        "An input comes from a path, file://, http(s)://, storage://, s3://, gs://, az:// or hf://.",
        "Correct the source; credentials never belong in it.",
    ),
    _code(
        _S,
        "private_folder",
        "The server's own folder",
        "What it names is in the server's data folder, or holds it: the owner's token, the database, others' outputs.",
        "Name a folder beside the data folder, or move that with `PLACET_DATA_DIR`.",
    ),
    _code(
        _S,
        "bad_digest",
        "Not a digest",
        "A SHA-256 digest has 64 hexadecimal digits.",
        "Copy the output of `sha256sum`.",
    ),
    _code(
        _S,
        "bad_value",
        "Not well-formed",
        "The value does not have the form that the field needs.",
        "Write it as in the example.",
    ),
    _code(
        _S,
        "not_pinned",
        "Requirement not pinned",
        "A requirement without `==` may install something else on the next attempt.",
        "Pin it: `name==version`.",
    ),
    _code(
        _S,
        "contradiction",
        "Contradiction",
        "Two parts of the spec cannot both hold.",
        "Change one of the two as suggested.",
    ),
    _code(
        _S,
        "unknown_model",
        "Size of the model unknown",
        "GPU memory is to be derived from a model, and nothing says how large that model is.",
        "Add `model.parameters`, or state `resources.minimum_gpu_memory_gb`.",
    ),
    _code(
        _S,
        "not_supported_yet",
        "Not supported yet",
        "The field is understood and nothing acts on it yet; it is refused because ignoring it would break a promise.",
        "Remove the field, or use what is suggested instead.",
    ),
    _code(
        _S,
        "secret_missing",
        "No such secret",
        "The spec names a secret that its tenant does not have.",
        "Make it with `placet secret set NAME`, or name one that `placet secret ls` shows.",
    ),
    _code(
        _W,
        "secret_in_environment",
        "Looks like a secret",
        "A literal value looks like a credential. Specs are stored and shown; secrets should not be in them.",
        "Keep it with `placet secret set`, name it under `secrets`; if it is no credential, nothing needs to be done.",
        status=200,
    ),
    _code(
        _W,
        "recorded_only",
        "Recorded only",
        "The field is kept and shown, and decides nothing.",
        "Add what is suggested if it is to decide something; else nothing needs to be done.",
        status=200,
    ),
    _code(
        _W,
        "deadline_unlikely",
        "Deadline unlikely to be met",
        "Nine of ten equal workloads ran for longer than there is time before the deadline.",
        "Give a later deadline if the work is worth finishing late.",
        status=200,
    ),
)

_PLACEMENT = (
    _code(
        _P,
        "deadline_passed",
        "Deadline passed",
        "The deadline lies in the past.",
        "Give a later deadline, for example +2h.",
    ),
    _code(
        _P,
        "no_feasible_offer",
        "No offer fits",
        "No offer, busy or free, meets the strict requirements.",
        "Relax the requirement that drops most offers; `placet offers` and `placet estimate FILE` show them.",
    ),
    _code(
        _P,
        "missing_input",
        "Input not found",
        "An input does not exist or cannot be read.",
        "Correct the source, or make it readable.",
    ),
    _code(
        _P,
        "provider_unknown",
        "Unknown provider",
        "A named provider is not configured here.",
        "Use one that `placet offers` lists, or configure it.",
    ),
    _code(
        _P,
        "unknown_storage",
        "Unknown storage alias",
        "The name after storage:// is not configured here.",
        "Configure the alias, or use a path or URL.",
    ),
    _code(
        _P,
        "over_budget",
        "Over the cost limit",
        "Every offer that fits may cost more than the limit.",
        "Raise constraints.maximum_estimated_cost.",
    ),
    _code(
        _P,
        "deadline_too_soon",
        "Deadline too soon",
        "Everything that fits otherwise takes longer to start than there is time before the deadline.",
        "Give a later deadline.",
    ),
    _code(
        _P,
        "region_outside_jurisdiction",
        "Region outside the jurisdiction",
        "None of the allowed regions lies in an allowed jurisdiction, as far as offers say.",
        "Allow a region within the jurisdiction, or another jurisdiction.",
    ),
    _code(
        _P,
        "only_preemptible",
        "Only what may be taken back",
        "The program may run at most once, and all that fits otherwise may be taken back or may start it again.",
        "Allow other capacity, or declare `repeat: safe` or `repeat: resumable`.",
    ),
    _code(
        _P,
        "bounds_never_meet",
        "Two bounds that never meet",
        "Each of the two bounds is met by some offer, and no offer meets both.",
        "Relax one of the two; the fix says what each would cost.",
    ),
    _code(
        _P,
        "bad_quote",
        "No quote of ours",
        "The quote was not made by this deployment for this tenant, or was changed.",
        "Copy it whole, or ask again with `placet estimate`.",
    ),
    _code(
        _P,
        "quote_expired",
        "Quote expired",
        "The time for which the quote was valid is over.",
        "Ask again with `placet estimate`, and submit with the new quote.",
    ),
    _code(
        _P,
        "budget_exceeded",
        "Beyond the budget",
        "At worst it may cost more than the budget of the token or of the tenant leaves.",
        "Ask for less, wait until what runs is over, or have the budget raised: placet budget set.",
    ),
    _code(
        _W,
        "budget_low",
        "Budget nearly used",
        "A half or more of a budget is spent or set aside; once nothing is left, no new attempt begins.",
        "Have the budget raised: placet budget set.",
    ),
    _code(
        _P,
        "quote_exceeded",
        "Dearer than the quote",
        "What the workload is expected to cost now is above the bound of the quote.",
        "Ask again with `placet estimate`, and submit with the new quote.",
    ),
    _code(
        _P,
        "quote_spec_changed",
        "Quote for another spec",
        "The quote was made for another spec than the one that is submitted.",
        "Submit the spec that was estimated, or ask again with `placet estimate`.",
    ),
)

_REQUESTS = (
    _code(
        _R,
        "bad_request",
        "Bad request",
        "A parameter or header of the request is wrong.",
        "Correct the named parameter.",
        status=400,
    ),
    _code(
        _R,
        "unauthorized",
        "Who are you?",
        "The request has no valid token.",
        "Send `Authorization: Bearer TOKEN`; `placet token create` makes one.",
        status=401,
    ),
    _code(
        _R,
        "forbidden",
        "Not allowed",
        "The token lacks the scope for this.",
        "Use a token with that scope.",
        status=403,
    ),
    _code(
        _R,
        "not_found",
        "Not found",
        "There is no such thing, or it is not yours.",
        "Check the id or path; `placet ls` lists workloads, `/v1/openapi.json` the routes.",
        status=404,
    ),
    _code(
        _R,
        "observing",
        "The server only observes",
        "Its database was restored, or its operator wants it so: nothing is begun until somebody says that it may.",
        "Look at what runs, then stop the server and start it with `placet server --act`.",
        status=503,
    ),
    _code(
        _R,
        "nothing_to_deliver",
        "Nothing to deliver",
        "The workload is not over, computed nothing to its end, or what it computed is not kept any more.",
        "Look at `placet account ID`.",
        status=409,
    ),
    _code(
        _R,
        "not_delivered",
        "Not delivered",
        "Something stood in the way of the outputs once more; they stay where they are, and nothing is run again.",
        "Do away with what the detail names, and ask again.",
        status=503,
    ),
    _code(
        _R,
        "not_in_doubt",
        "Nothing is unclear",
        "It is known how the current attempt is, or there is none; nothing was done.",
        "Look at `placet account ID`; `placet cancel ID` ends it, `placet retry ID` submits it again.",
        status=409,
    ),
    _code(
        _R,
        "not_ours",
        "Not ours to delete",
        "The allocation bears the name of one of our attempts and another mark; nothing proves that it is ours.",
        "Look at it in the provider's own console, and delete it there if it is yours.",
        status=409,
    ),
    _code(
        _R,
        "upload_refused",
        "Not to be sent",
        "The machine may not put that into the object store, or not any more; what the store has was not changed.",
        "Read the detail; a machine whose attempt is over has nothing to send.",
        status=409,
    ),
    _code(
        _R,
        "method_not_allowed",
        "Method not allowed",
        "The path exists and does not know this method.",
        "`/v1/openapi.json` lists the routes and their methods.",
        status=405,
    ),
    _code(
        _R,
        "idempotency_conflict",
        "Key used for another request",
        "The idempotency key belongs to a workload with another body; nothing was done.",
        "Use a new key for a new request, or repeat the first request unchanged.",
        status=409,
    ),
    _code(
        _R,
        "bad_idempotency_key",
        "Bad idempotency key",
        "A key is 1 to 255 printable ASCII characters.",
        "Use for example a UUID.",
        status=400,
    ),
    _code(
        _R,
        "not_final",
        "Not final yet",
        "The workload has not ended; its result does not exist yet.",
        "Wait for the end, then ask again.",
        status=409,
    ),
    _code(
        _R,
        "already_final",
        "Already final",
        "The workload has ended; its result never changes.",
        "`placet retry` makes a new workload of it.",
        status=409,
    ),
    _code(
        _R,
        "conflict",
        "State does not allow it",
        "The request does not fit the state of the workload.",
        "Read the state, then decide.",
        status=409,
    ),
    _code(
        _R,
        "gone",
        "No longer kept",
        "The object existed and its retention has ended.",
        "Nothing can bring it back.",
        status=410,
    ),
    _code(
        _R,
        "unsupported_media_type",
        "Unsupported media type",
        "The body is of a type that is not read here.",
        "Send application/json or application/yaml.",
        status=415,
    ),
    _code(
        _R,
        "range_not_satisfiable",
        "Range not satisfiable",
        "The asked range lies outside the object.",
        "Ask for a range within its size.",
        status=416,
    ),
    _code(
        _R,
        "too_many_requests",
        "Too many requests",
        "The number of open streams, or of wrong tokens from one address, exceeds its limit.",
        "Wait as long as Retry-After says.",
        status=429,
    ),
    _code(
        _R,
        "internal_error",
        "A fault of Placet",
        "Something broke here; the request may or may not have been carried out.",
        "Repeat it with the same idempotency key; report the request id.",
        status=500,
    ),
    _code(
        _R,
        "unavailable",
        "Not available now",
        "The server is starting, stopping or cannot reach its store; nothing was done.",
        "Try again soon with the same idempotency key.",
        status=503,
    ),
    _code(
        _R,
        "commit_unknown",
        "Carried out or not",
        "The store broke off while it was writing; the request was carried out whole or not at all.",
        "Repeat it with the same idempotency key; without one, look first.",
        status=503,
    ),
)

CODES: Mapping[str, Code] = {entry.code: entry for entry in (*_DOCUMENT, *_FIELDS, *_PLACEMENT, *_REQUESTS)}
