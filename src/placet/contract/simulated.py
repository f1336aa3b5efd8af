"""What the simulated provider is told to do: by settings for all, by a spec for one workload. Nothing of it is real."""

import json
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from placet.contract import fields
from placet.contract.part import BEHAVIOUR, Part

Whole = Annotated[int, Field(strict=True, ge=0, le=1000)]
Offset = Annotated[int, Field(strict=True, ge=-86_400, le=86_400)]
Factor = Annotated[Decimal, Field(ge=0, le=100)]


class Simulated(Part):
    """How the simulated provider plays a workload. What is not stated is as the settings say, else nothing fails."""

    runtime_seconds: fields.DurationOrZero | None = Field(
        default=None, description="The program seems to run so long (default 5).", json_schema_extra=BEHAVIOUR
    )
    exit_code: Annotated[int, Field(strict=True, ge=0, le=255)] | None = Field(
        default=None, description="Its exit code (default 0).", json_schema_extra=BEHAVIOUR
    )
    startup_seconds: fields.DurationOrZero | None = Field(
        default=None,
        description="From the order until a machine can start a program (default 2).",
        json_schema_extra=BEHAVIOUR,
    )
    log: fields.Text | None = Field(
        default=None, description="What the program seems to write, spread over its run.", json_schema_extra=BEHAVIOUR
    )
    faulty_attempts: Whole | None = Field(
        default=None,
        description="So many attempts of a workload meet what is below, later ones do not (default 1).",
        json_schema_extra=BEHAVIOUR,
    )
    start_fails: fields.Flag | None = Field(
        default=None, description="The program cannot be begun.", json_schema_extra=BEHAVIOUR
    )
    refuse: Literal["capacity", "quota"] | None = Field(
        default=None, description="The order is refused for this.", json_schema_extra=BEHAVIOUR
    )
    lost_reply: Literal["before_effect", "after_effect", "server_error"] | None = Field(
        default=None,
        description="The reply to the order is lost, without or with a machine made; or it is a server error (500), "
        "and the machine was made.",
        json_schema_extra=BEHAVIOUR,
    )
    late_create_seconds: fields.DurationOrZero | None = Field(
        default=None,
        description="The reply is lost, and the machine is made so much later.",
        json_schema_extra=BEHAVIOUR,
    )
    empty_handle: fields.Flag | None = Field(
        default=None, description="The reply names nothing, and the machine was made.", json_schema_extra=BEHAVIOUR
    )
    visibility_seconds: fields.DurationOrZero | None = Field(
        default=None, description="A new machine is neither listed nor found for so long.", json_schema_extra=BEHAVIOUR
    )
    lost_page_seconds: fields.DurationOrZero | None = Field(
        default=None, description="For so long a page of the list is missing.", json_schema_extra=BEHAVIOUR
    )
    rate_limited_seconds: fields.DurationOrZero | None = Field(
        default=None,
        description="For so long after the first order, calls about it are told to come later (429).",
        json_schema_extra=BEHAVIOUR,
    )
    wait_hint: fields.Flag | None = Field(
        default=None, description="They are told how much later (default true).", json_schema_extra=BEHAVIOUR
    )
    unknown_state_seconds: fields.DurationOrZero | None = Field(
        default=None, description="For so long a machine is in a state nobody knows.", json_schema_extra=BEHAVIOUR
    )
    stops_ignored: Whole | None = Field(
        default=None, description="So many requests to stop are taken and ignored.", json_schema_extra=BEHAVIOUR
    )
    stop_refused_while_provisioning: fields.Flag | None = Field(
        default=None, description="A machine that is being made cannot be stopped.", json_schema_extra=BEHAVIOUR
    )
    preempt_after_seconds: fields.DurationOrZero | None = Field(
        default=None,
        description="The machine is taken away so long after the program began.",
        json_schema_extra=BEHAVIOUR,
    )
    preempt_notice_seconds: fields.DurationOrZero | None = Field(
        default=None,
        description="A machine that is taken away is told so before by so much.",
        json_schema_extra=BEHAVIOUR,
    )
    host_lost_after_seconds: fields.DurationOrZero | None = Field(
        default=None,
        description="The machine is gone without a trace so long after the program began.",
        json_schema_extra=BEHAVIOUR,
    )
    restart_after_seconds: fields.DurationOrZero | None = Field(
        default=None,
        description="The provider begins the program again, once, so long after it began.",
        json_schema_extra=BEHAVIOUR,
    )
    price_factor: Factor | None = Field(
        default=None,
        description="What is charged, as a multiple of what is listed (default 1).",
        json_schema_extra=BEHAVIOUR,
    )
    log_lost_bytes: Annotated[int, Field(strict=True, ge=0, le=10**9)] | None = Field(
        default=None, description="So many bytes at the end of the log are lost.", json_schema_extra=BEHAVIOUR
    )
    clock_offset_seconds: Offset | None = Field(
        default=None, description="The provider's clock is ahead of ours by so much.", json_schema_extra=BEHAVIOUR
    )

    def stated(self) -> str:
        """What is stated, as the one JSON text of it: numbers as texts, names in order."""
        plain = {
            name: str(fields.written(value)) if isinstance(value, Decimal) else value
            for name, value in self.model_dump(exclude_none=True).items()
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class ProviderOptions(Part):
    """Words for one provider alone; it must be named in `constraints.providers.allowed`."""

    simulated: Simulated | None = Field(
        default=None, description="How the simulated provider plays this workload.", json_schema_extra=BEHAVIOUR
    )

    def stated(self) -> dict[str, str]:
        """What is stated, by provider."""
        parts: dict[str, Simulated | None] = {"simulated": self.simulated}
        return {name: part.stated() for name, part in parts.items() if part is not None}
