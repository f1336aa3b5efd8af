"""What the body of a submit may be, for the OpenAPI document; the body itself is read by ``parse``, never by this."""

from typing import TypeAlias

from pydantic import BaseModel

from placet.contract.spec import SpecDocument


class Wrapped(BaseModel):
    """A spec inside an envelope, for clients that cannot send a bare one."""

    spec: SpecDocument


SubmitRequest: TypeAlias = SpecDocument | Wrapped
