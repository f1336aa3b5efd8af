"""Opens object stores: one client of obstore for each bucket, and a client of boto3 where parts are to be signed.

Credentials come from the usual places: environment, files of the cloud's own tools, the machine's role. They stay in
this process; others get signed addresses.
"""

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from placet.adapters.objects.places import Access, Place, Unusable

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

MISSING = "object stores need libraries that are not installed: pip install '.[objects]'"
DEFAULT_REGION = "us-east-1"
RETRIES = 4
RETRY_S = 60
CONNECTIONS = 16
CONNECT_S = 10
# A transfer may take as long as it moves; a store that says nothing for so long is gone.
SILENCE_S = 60


def open_store(place: Place, access: Access) -> "ObjectStore":
    """The store whose paths begin at the place's key. Nothing is sent yet. Raises ``Unusable``."""
    try:
        from obstore import exceptions, store
    except ImportError as error:
        raise Unusable(MISSING) from error
    client: Any = {
        "connect_timeout": timedelta(seconds=CONNECT_S),
        "read_timeout": timedelta(seconds=SILENCE_S),
        "timeout": timedelta(hours=12),
    }
    retry: Any = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
    prefix = place.key.strip("/") or None
    try:
        if place.scheme == "s3":
            return _s3(place, access, prefix, client, retry)
        if place.scheme == "gs":
            gcs: GCSStore = store.GCSStore(place.bucket, prefix=prefix, client_options=client, retry_config=retry)
            return gcs
        account, container = place.bucket.split("/")
        azure: AzureStore = store.AzureStore(
            container,
            prefix=prefix,
            account_name=account,
            client_options=client,
            retry_config=retry,
        )
        return azure
    except (exceptions.BaseError, ValueError) as error:
        raise Unusable(f"{place.root}: {first_line(error)}") from error


def _s3(place: Place, access: Access, prefix: str | None, client: Any, retry: Any) -> "S3Store":
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import S3Store

    core, session = _sessions(access)
    options: dict[str, Any] = {"region": session.region_name or DEFAULT_REGION}
    endpoint = _endpoint(core, access)
    if endpoint is not None:
        options["endpoint"] = endpoint
        client["allow_http"] = endpoint.startswith("http://")
    try:
        provider = Boto3CredentialProvider(session)
    except ValueError as error:
        raise Unusable(f"{place.root}: no credentials in the environment, in ~/.aws or from this machine") from error
    return S3Store(
        place.bucket,
        prefix=prefix,
        credential_provider=provider,
        client_options=client,
        retry_config=retry,
        **options,
    )


def s3_client(access: Access, *, public: bool) -> Any:
    """A client of boto3 that signs with version 4; ``public`` signs for the endpoint that others reach."""
    try:
        from botocore.config import Config
    except ImportError as error:
        raise Unusable(MISSING) from error
    core, session = _sessions(access)
    endpoint = (access.public_endpoint if public else None) or _endpoint(core, access)
    try:
        return session.client(
            "s3",
            endpoint_url=endpoint,
            region_name=session.region_name or DEFAULT_REGION,
            config=Config(
                signature_version="s3v4",
                connect_timeout=CONNECT_S,
                read_timeout=SILENCE_S,
                max_pool_connections=CONNECTIONS,
                retries={"max_attempts": RETRIES, "mode": "standard"},
                s3={"addressing_style": "path" if endpoint else "auto"},
                # Checksums are asked for by name where they are wanted: not every store knows the default ones.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except ValueError as error:
        raise Unusable(f"objects.endpoint: {error}") from error


def _sessions(access: Access) -> tuple[Any, Any]:
    """That of botocore, which reads the files, and that of boto3 over it."""
    try:
        import boto3
        import botocore.session
        from botocore.exceptions import ProfileNotFound
    except ImportError as error:
        raise Unusable(MISSING) from error
    core = botocore.session.Session(profile=access.profile)
    try:
        return core, boto3.Session(botocore_session=core, region_name=access.region)
    except ProfileNotFound as error:
        raise Unusable(f"objects.profile: {error}") from error


def _endpoint(core: Any, access: Access) -> str | None:
    """Ours, or what the usual variables or the profile name; ``None`` for Amazon's own."""
    named = access.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if named:
        return named
    configured = core.get_scoped_config().get("endpoint_url")
    return str(configured) if configured else None


def first_line(error: BaseException) -> str:
    """What the library says, without the dump that follows it and without anything that was signed."""
    return str(error).partition("\n")[0].partition("?")[0][:300]
