"""Routes about secrets. No reply holds a value, and no refusal repeats what was sent."""

import re

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from placet.contract.secrets import RemovedSecretView, SecretPage, SecretRequest, SecretView
from placet.domain.vault import Sealed
from placet.engine.vault import Refused
from placet.server import mapping, problems
from placet.server.asking import unfit
from placet.server.doors import Doors, actor_of, reply
from placet.server.table import Door, Repeat, Route, principal_of, read_body
from placet.server.tokens import Scope

# A value of 32 KiB, each byte of it written as an escape of JSON.
BODY_MAX = 256 * 1024
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


class Secrets:
    """Handlers over the use cases, each for the caller's tenant."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            Route(door=SECRETS, endpoint=self.listed),
            Route(door=SET, endpoint=self.set),
            Route(door=REMOVE, endpoint=self.remove),
        )

    async def listed(self, request: Request) -> Response:
        """All of the tenant's, by name, without their values."""
        found = await self._doors.vault.listed(principal_of(request).tenant)
        return reply(SecretPage(items=[_view(one) for one in found]))

    async def set(self, request: Request) -> Response:
        """A new secret or a new version of one. What runs keeps what it has; what is sent from now on gets this."""
        name = _name(request)
        try:
            wanted = SecretRequest.model_validate_json(await read_body(request, BODY_MAX))
        except ValidationError as error:
            raise unfit(error) from None  # the cause would hold the value
        made = await self._doors.vault.put(principal_of(request).tenant, name, wanted.value, actor_of(request))
        if isinstance(made, Refused):
            raise problems.Refusal(problems.BAD_REQUEST, detail=made.why, fix=made.fix)
        return reply(_view(made))

    async def remove(self, request: Request) -> Response:
        """Forget it. Repeating it changes nothing."""
        name = _name(request)
        changed = await self._doors.vault.remove(principal_of(request).tenant, name)
        return reply(RemovedSecretView(name=name, changed=changed))


def _name(request: Request) -> str:
    name = str(request.path_params["name"])
    if not NAME.fullmatch(name):
        raise problems.Refusal(
            problems.BAD_REQUEST,
            detail="name: not the name of a secret",
            fix="up to 63 letters, digits, `.`, `_` and `-`, the first a letter or a digit",
        )
    return name


def _view(sealed: Sealed) -> SecretView:
    return SecretView(
        name=sealed.name,
        version=sealed.version,
        key_id=sealed.key_id,
        created_at=mapping.format_instant(sealed.created_ms),
        created_by=sealed.created_by,
    )


BASE = "/v1/secrets"
ONE = f"{BASE}/{{name}}"
SECRETS = Door(
    method="GET", path=BASE, summary="List secrets, without their values.", scope=Scope.SECRETS, reply=SecretPage
)
SET = Door(
    method="PUT",
    path=ONE,
    summary="Set a secret, or a new version of it.",
    scope=Scope.SECRETS,
    repeat=Repeat.ANEW,
    body_max=BODY_MAX,
    reply=SecretView,
    refusals=(problems.BAD_REQUEST, problems.TOO_LARGE),
    body=SecretRequest,
)
REMOVE = Door(
    method="DELETE",
    path=ONE,
    summary="Forget a secret and all its versions.",
    scope=Scope.SECRETS,
    repeat=Repeat.SAME,
    reply=RemovedSecretView,
    refusals=(problems.BAD_REQUEST,),
)
DOORS = (SECRETS, SET, REMOVE)
