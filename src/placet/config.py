"""Settings: defaults, then ``placet.toml``, then ``PLACET_*``, then what the caller names. It starts nothing."""

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from placet.adapters.providers.slurm.settings import SlurmSettings
from placet.contract.simulated import Simulated
from placet.domain.units import CORES_MIN, MEMORY_BYTES_MIN, PB, parse_bytes
from placet.sdk import places

DEFAULT_PORT = 7468

# Names a client reads for itself; they share the prefix and are no settings of a server.
CLIENT_VARIABLES = frozenset({"PLACET_CONFIG", "PLACET_URL", "PLACET_TOKEN"})
# Names Placet gives to a workload's program; a server started from within one must not trip over them.
WORKLOAD_VARIABLES = frozenset(
    {"PLACET_WORKLOAD_ID", "PLACET_ATTEMPT", "PLACET_INPUTS", "PLACET_OUTPUTS", "PLACET_CHECKPOINTS"}
)
# A test of crashes names in it the moment at which the server is to be killed (``failpoints.py``).
TEST_VARIABLES = frozenset({"PLACET_FAILPOINT"})
OTHER_VARIABLES = CLIENT_VARIABLES | WORKLOAD_VARIABLES | TEST_VARIABLES

# No machine has more, and no price is higher, than what is read from price lists (``stages/listing.py``).
Seconds = Annotated[float, Field(ge=0.001, le=86_400)]
Bytes = Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=str | int), Field(ge=0, le=PB)]
Memory = Annotated[Bytes, Field(ge=MEMORY_BYTES_MIN)]
Cores = Annotated[Decimal, Field(ge=CORES_MIN, le=100_000, decimal_places=3)]
Price = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)]


class SettingsError(Exception):
    """The settings cannot be used; the message has one line for each mistake."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ServerSettings(_Section):
    """Where the server listens. The unix socket in the data folder is always there."""

    host: str = Field("127.0.0.1", description="Address to listen on; anything but loopback needs TLS.")
    port: int = Field(DEFAULT_PORT, ge=0, le=65_535, description="TCP port; 0 takes a free one.")
    tls_certificate: Path | None = Field(None, description="PEM file with the certificate chain.")
    tls_key: Path | None = Field(None, description="PEM file with the private key.")
    allow_remote_without_tls: bool = Field(
        False, description="Listen beyond loopback in the clear, because something in front does TLS."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names under which clients may address the server, besides the loopback names."
    )
    idle_exit_seconds: Seconds = Field(
        20.0, description="How long `placet server --until-idle` waits, with nothing to do, before it ends."
    )
    shutdown_seconds: Seconds = Field(10.0, description="How long open requests may take to end when the server stops.")

    @model_validator(mode="after")
    def _certificate_and_key_together(self) -> "ServerSettings":
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together: set both or neither")
        return self


class GpuSettings(_Section):
    """Devices declared by hand, for machines where they cannot be found out."""

    model: str = Field(description="Name of the model, such as `L4`.")
    memory_gb: Decimal = Field(
        gt=0, le=1_000_000, decimal_places=9, description="Memory of one device in GB (10^9 bytes)."
    )
    count: int = Field(1, ge=1, le=64, description="How many of them.")


class LocalSettings(_Section):
    """The provider that runs workloads on this machine."""

    enabled: bool = Field(True, description="Offer this machine at all.")
    folder: Path | None = Field(
        None,
        description="Folder of the supervisor and its attempts; default: `local` in the data folder. Servers of one "
        "machine that share a database share this folder, so that each can take over what the other started.",
    )
    slots: int | None = Field(
        None, ge=1, le=4096, description="Attempts at one time; default: twice the cores, at least 4."
    )
    cpu_cores: Cores | None = Field(None, description="Cores to offer; default: all that may be used.")
    memory: Memory | None = Field(None, description="Memory to offer, such as `24GB`; default: most of what is there.")
    gpus: tuple[GpuSettings, ...] | None = Field(
        None, description="GPUs to offer instead of those that NVML finds; an empty list offers none."
    )
    price_per_hour: Price = Field(
        Decimal(0), description="US dollars per hour that an attempt on this machine counts as."
    )
    sandbox: Literal["auto", "none", "bubblewrap"] = Field(
        "auto",
        description="Which programs bubblewrap shuts in (data folder hidden, rest read-only). `auto`: where it "
        "works, those of specs with inputs or outputs below `/outputs`; others may read the data folder and its token. "
        "`bubblewrap`: all, else none is started. `none`: none.",
    )
    cgroup: Literal["auto", "off"] = Field(
        "auto", description="Use control groups for limits where they can be written."
    )
    supervisor_idle_seconds: Seconds = Field(
        60.0, description="How long the supervisor process stays with nothing to watch and no server."
    )
    checkpoint_days: float = Field(
        30.0,
        gt=0,
        le=3650,
        description="Days for which a workload's checkpoints are kept after their last use; more than any workload "
        "waits between two attempts.",
    )
    collect_seconds: Seconds = Field(3600.0, description="Longest time for collecting the outputs of one attempt.")
    output_limit: Bytes | None = Field(
        None,
        ge=1,
        description="Most bytes that the outputs of one attempt may measure together, holes in files counted, such as "
        "`50GB`; unset, what the disk could hold: what is free and what they take.",
    )
    log_limit: Bytes = Field(10**9, description="Bytes kept of each log stream of an attempt, such as `1GB`.")


class SimulatedSettings(_Section):
    """A provider of machines that are not real, for rehearsals. It runs no program and spends no money."""

    enabled: bool = Field(
        False, description="Have it; workloads come to it only if `constraints.providers.allowed` names it."
    )
    for_all: bool = Field(
        False, description="Let it be chosen for workloads too that do not name it: only on a server for rehearsals."
    )
    folder: Path | None = Field(
        None,
        description="Folder of the simulated cloud, which outlives servers; default: `simulated` in the data folder.",
    )
    promised_visibility_seconds: Seconds = Field(
        5.0, description="How long its card says that a new machine may be invisible; behaviours may break it."
    )
    promised_late_create_seconds: Seconds = Field(
        5.0, description="How late its card says that an order may take effect; behaviours may break it."
    )
    defaults: Simulated = Field(default_factory=Simulated, description="")


class ContainerGpuSettings(_Section):
    """A GPU of an engine's machine; the engine itself does not list them."""

    id: str = Field(min_length=1, max_length=200, description="The word by which the engine is asked for it.")
    model: str = Field(min_length=1, max_length=200, description="Name of the model, such as `L4`.")
    memory_gb: Decimal = Field(gt=0, le=1_000_000, decimal_places=9, description="Its memory in GB (10^9 bytes).")


class ContainerSettings(_Section):
    """A container engine that runs workloads with the runtime `container`."""

    enabled: Literal["auto"] | bool = Field(
        "auto", description="`auto`: where an engine is named, or a usual socket answers."
    )
    host: str = Field(
        "",
        pattern=r"^(|(unix|tcp|http|https)://.+)$",
        description="`unix:///path` or `tcp://name:port`; default: what the engine's own variables name, "
        "else the usual sockets. Whoever can use an engine that is not rootless is root on its machine.",
    )
    tls_ca: Path | None = Field(None, description="PEM file of the authority that signed the engine's certificate.")
    tls_certificate: Path | None = Field(None, description="PEM file with our certificate.")
    tls_key: Path | None = Field(None, description="PEM file with its key.")
    region: str = Field("", max_length=63, description="Name of the place; default: made from the engine's own name.")
    slots: int | None = Field(
        None, ge=1, le=4096, description="Attempts at one time; default: twice the cores, at least 4."
    )
    cpu_cores: Cores | None = Field(None, description="Cores to offer; default: all that the engine's machine has.")
    memory: Memory | None = Field(None, description="Memory to offer; default: most of what that machine has.")
    gpus: tuple[ContainerGpuSettings, ...] = Field((), max_length=64, description="Its GPUs; default: none.")
    price_per_hour: Price = Field(Decimal(0), description="US dollars per hour that an attempt counts as.")
    network: str = Field(
        "",
        pattern=r"^(|none|bridge|private|slirp4netns|pasta|[a-zA-Z0-9][a-zA-Z0-9_.-]*)$",
        max_length=200,
        description="The engine's network for programs: `none`, or the name of one; default: the engine's own choice.",
    )
    read_only_root: bool = Field(
        False, description="Give programs a root that they cannot write, and a `/tmp` of their own in memory."
    )
    allow_root: bool = Field(
        False,
        description="Let images that run as root do so, all capabilities dropped; else they run as user 65534.",
    )
    tmp: Bytes = Field(10**9, ge=2**20, description="Size of `/tmp` where the root is read-only.")
    processes: int = Field(4096, ge=16, le=4_194_304, description="Most processes of a spec that states none.")
    disk_quota: bool = Field(
        False, description="The storage driver limits disk use per container (overlay2 on xfs with project quotas)."
    )
    log_limit: Bytes = Field(
        64 * 10**6, ge=10**6, description="Bytes of one log file at the engine; it keeps the last two of an attempt."
    )
    output_limit: Bytes | None = Field(
        None, ge=1, description="Most bytes that the outputs of one attempt may measure together; default: any."
    )
    collect_seconds: Seconds = Field(3600.0, description="Longest time for collecting the outputs of one attempt.")
    pull_silence_seconds: Seconds = Field(
        120.0, description="A pull of an image is given up when the engine says nothing for so long."
    )
    checkpoint_days: float = Field(
        30.0, gt=0, le=3650, description="Days for which a workload's checkpoints are kept after their last use."
    )
    call_seconds: Seconds = Field(30.0, description="Longest time for one call of the engine.")

    @model_validator(mode="after")
    def _no_network_of_the_machine(self) -> "ContainerSettings":
        if self.network == "host":
            raise ValueError("network: the machine's own network would be shared with strangers' programs")
        return self


class NamedContainerSettings(ContainerSettings):
    """One more engine, under a name of its own."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9-]{0,40}$", description="Name of the provider in specs, offers and records."
    )
    host: str = Field(pattern=r"^(unix|tcp|http|https)://.+$", description="`unix:///path` or `tcp://name:port`.")


class ProvidersSettings(_Section):
    """Providers besides this machine."""

    container: ContainerSettings = Field(default_factory=ContainerSettings, description="")
    engines: tuple[NamedContainerSettings, ...] = Field(
        (), max_length=64, description="More container engines, each a provider of its own."
    )
    simulated: SimulatedSettings = Field(default_factory=SimulatedSettings, description="")
    slurm: SlurmSettings = Field(default_factory=SlurmSettings, description="")

    @model_validator(mode="after")
    def _names_differ(self) -> "ProvidersSettings":
        names = [*(engine.name for engine in self.engines), "local", "container", "simulated"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"several providers are named {', '.join(twice)}: give each engine a name of its own")
        return self


class EngineSettings(_Section):
    """Pace and bounds of the engine."""

    max_live: int = Field(512, ge=1, le=100_000, description="Workloads one server drives at a time.")
    poll_seconds: Seconds = Field(5.0, description="Longest time between two looks at what runs, hints aside.")
    beat_seconds: Seconds = Field(2.0, description="Time between two signs of life in the store.")
    lease_seconds: Seconds = Field(15.0, description="Silence after which another server takes over.")
    quote_seconds: Seconds = Field(900.0, description="How long the quote of an estimate is valid.")
    quote_wait_seconds: Seconds = Field(
        86_400.0,
        description="How long a workload that was submitted with a quote waits while nothing is offered within it; its "
        "own `start_within_seconds` comes first.",
    )
    delete_unrecorded: bool = Field(
        False,
        description="Delete what bears this deployment's mark at a provider and is recorded nowhere, after ten "
        "minutes; else `placet orphans` shows it and somebody decides.",
    )

    observe: bool = Field(
        False,
        description="Only look: nothing is started, stopped, deleted or told, and nothing new is accepted. So begins "
        "every server on a restored database; `placet server --act` ends that.",
    )

    @model_validator(mode="after")
    def _lease_outlives_beats(self) -> "EngineSettings":
        if self.lease_seconds < 3 * self.beat_seconds:
            raise ValueError("lease_seconds must be at least three times beat_seconds, or a slow disk costs the lease")
        return self


class PlacementSettings(_Section):
    """How offers are chosen."""

    exploration: float = Field(
        0.05,
        ge=0,
        le=0.5,
        description="Share of workloads that may try an offer of which little is known, if it is at most a tenth worse "
        "than the best; never one with a deadline or that may run only once. 0 switches it off.",
    )


class LogSettings(_Section):
    """The server's own log, not that of workloads."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is written.")
    format: Literal["auto", "text", "json"] = Field("auto", description="`auto`: text on a terminal, else JSON lines.")


class ObjectSettings(_Section):
    """How object stores are reached. Credentials come from where each cloud's own tools look for them."""

    endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^@/?#]+/?$",
        description="Address of S3 where it is not Amazon's, such as `http://127.0.0.1:9000`; default: that of "
        "`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` or the profile.",
    )
    public_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^@/?#]+/?$",
        description="Its address for clients and machines, if that is another one; signed addresses name it.",
    )
    region: str | None = Field(None, description="Region of S3; default: that of `AWS_REGION` or the profile.")
    profile: str | None = Field(None, description="Profile in `~/.aws` to take credentials from.")
    link_seconds: int = Field(900, ge=10, le=604_800, description="How long a signed address of an output is valid.")


class InputSettings(_Section):
    """Where inputs may come from."""

    allowed_private_hosts: tuple[str, ...] = Field(
        (), description="Host names or addresses from which http(s) inputs may be fetched although they are private."
    )
    object_prefixes: tuple[str, ...] = Field(
        ("s3://", "gs://", "az://"),
        description="Where inputs in object stores may begin. They are read with the server's own credentials: with "
        "several tenants, name the buckets that all of them may read. Where outputs are kept is never among them.",
    )


class WebhookSettings(_Section):
    """Where messages about workloads may be sent."""

    allowed_private_hosts: tuple[str, ...] = Field(
        (),
        description="Host names or addresses, with or without `:port`, to which messages may be sent although they are "
        "private, speak plain http or listen on an unusual port.",
    )


class SecretSettings(_Section):
    """The key that secrets of workloads are sealed under."""

    key_file: Path | None = Field(
        None,
        description="File, mode 0600, with keys: 32 random bytes in base64, one on each line. The first seals, the "
        "others only open. Default: `secret.key` in the data folder, made at the first use, for a server that only "
        "this machine reaches and whose database is SQLite.",
    )
    key: SecretStr | None = Field(
        None, description="The keys themselves, apart by commas, where no file can be had. Never shown."
    )

    @model_validator(mode="after")
    def _one_place(self) -> "SecretSettings":
        if self.key_file is not None and self.key is not None:
            raise ValueError("set key_file or key, not both")
        return self


class ModelSettings(_Section):
    """Where facts about models may come from."""

    hub: bool = Field(
        False, description="Ask the Hugging Face hub for the shape of models that are neither known nor described."
    )


class _SourceSettings(_Section):
    within_seconds: Seconds = Field(30.0, description="Longest time for one reading.")
    stale_hours: float = Field(168.0, gt=0, le=87_600, description="Age at which what was read is marked as stale.")
    rows_max: int = Field(200_000, ge=1, le=5_000_000, description="A source with more rows is refused.")


class CatalogFileSettings(_SourceSettings):
    """A price list in a file: CSV with a header, or a JSON list of objects."""

    path: Path = Field(description="The file; `.json` is JSON, anything else CSV.")
    name: str = Field(
        "",
        pattern=r"^[a-z0-9._-]{0,40}$",
        description="Name of the source; default: that of the file, in small letters.",
    )
    refresh_seconds: Seconds = Field(300.0, description="Pause between two looks at whether it has changed.")

    @property
    def source(self) -> str:
        """The name of the source, the default filled in."""
        return self.name or self.path.name.lower()


class GpuhuntSettings(_SourceSettings):
    """Prices of many clouds by the library gpuhunt: `pip install '.[gpuhunt]'`."""

    enabled: bool = Field(False, description="Ask it at all.")
    providers: tuple[str, ...] = Field(
        (), description="Its names of the clouds to list; default: those that need no account."
    )
    folder: Path | None = Field(None, description="Folder with its lists, such as `aws.csv`, instead of downloads.")
    refresh_seconds: Seconds = Field(3600.0, description="Pause between two readings.")
    within_seconds: Seconds = Field(180.0, description="Longest time for one reading; it is ended then.")
    stale_hours: float = Field(24.0, gt=0, le=87_600, description="Age at which what was read is marked as stale.")


class PrivateSettings(_Section):
    """Capacity of the operator's own: what a provider offers that is ours, or a machine that no provider offers yet."""

    provider: str = Field(min_length=1, max_length=200, description="Name of the provider.")
    offers: str = Field(
        "",
        max_length=200,
        description="Pattern of the ids of its offers that are ours, such as `*-h100`. They count as reserved, at the "
        "price given here. Without it the entry describes a machine, for comparison.",
    )
    price_per_hour: Price = Field(Decimal(0), description="US dollars per hour it counts as.")
    region: str = Field("", description="Where the machine stands.")
    jurisdiction: str = Field("", description="Whose law holds there, such as `EU`.")
    compliance: tuple[str, ...] = Field((), description="What it is certified for, such as `hipaa`.")
    instance: str = Field("", description="Name of the machine.")
    gpu_model: str = Field("", description="Its GPUs, such as `H100`.")
    gpu_count: int = Field(1, ge=1, le=1024, description="How many of them.")
    cpu_cores: Cores | None = Field(None, description="Its cores.")
    memory: Memory | None = Field(None, description="Its main memory, such as `512GB`.")
    disk: Memory | None = Field(None, description="Its disk, such as `2TB`.")
    interconnect: str = Field("", description="What joins its GPUs, such as `nvlink`.")

    @model_validator(mode="after")
    def _either_offers_or_a_machine(self) -> "PrivateSettings":
        machine = bool(self.gpu_model or self.cpu_cores)
        if machine == bool(self.offers):
            raise ValueError("state either offers, a pattern of ids, or the machine: gpu_model or cpu_cores")
        return self


class CatalogSettings(_Section):
    """Where offers come from besides connected providers; they are for comparison, and nothing is asked by default."""

    demonstration: bool = Field(
        False, description="List the shipped GPU prices of Full Stack Deep Learning, of 2024 and 2025."
    )
    files: tuple[CatalogFileSettings, ...] = Field((), max_length=64, description="Price lists of your own.")
    gpuhunt: GpuhuntSettings = Field(default_factory=GpuhuntSettings, description="")
    private: tuple[PrivateSettings, ...] = Field((), max_length=1000, description="Capacity of your own.")

    @model_validator(mode="after")
    def _names_differ(self) -> "CatalogSettings":
        names = [*(file.source for file in self.files), "demonstration", "gpuhunt", "private"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"several sources are named {', '.join(twice)}: give each file a name of its own")
        return self


class Settings(BaseSettings):
    """Everything a server or an embedded run needs to know."""

    model_config = SettingsConfigDict(
        env_prefix="PLACET_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=True,
        defer_build=True,
    )

    _stamp: str = PrivateAttr(default="")

    data_dir: Path = Field(
        default_factory=lambda: places.data_dir(os.environ),
        description="Folder of the database, logs, artifacts, socket and token; mode 0700. Default: "
        "`$XDG_DATA_HOME/placet`, that is `~/.local/share/placet`.",
    )
    database_url: str | None = Field(
        None,
        description="`sqlite:///PATH` or `postgresql://...`; default: SQLite in the data folder. Never shown in full.",
    )
    artifacts_dir: Path | None = Field(
        None,
        description="Folder of outputs and sealed logs; default: `artifacts` in the data folder. Servers that share a "
        "database share this folder too.",
    )
    artifacts_url: str | None = Field(
        None,
        description="Keep outputs and sealed logs in a bucket instead of that folder: `s3://BUCKET/PREFIX`, `gs://...` "
        "or `az://ACCOUNT/CONTAINER/...`. Needs `pip install '.[objects]'`.",
    )
    storage: dict[str, str] = Field(
        default_factory=dict,
        description="Aliases for `storage://ALIAS/...` inputs: a name and the absolute folder or URL it stands for.",
    )
    server: ServerSettings = Field(default_factory=ServerSettings, description="")
    local: LocalSettings = Field(default_factory=LocalSettings, description="")
    providers: ProvidersSettings = Field(default_factory=ProvidersSettings, description="")
    engine: EngineSettings = Field(default_factory=EngineSettings, description="")
    placement: PlacementSettings = Field(default_factory=PlacementSettings, description="")
    objects: ObjectSettings = Field(default_factory=ObjectSettings, description="")
    inputs: InputSettings = Field(default_factory=InputSettings, description="")
    webhooks: WebhookSettings = Field(default_factory=WebhookSettings, description="")
    secrets: SecretSettings = Field(default_factory=SecretSettings, description="")
    models: ModelSettings = Field(default_factory=ModelSettings, description="")
    catalog: CatalogSettings = Field(default_factory=CatalogSettings, description="")
    log: LogSettings = Field(default_factory=LogSettings, description="")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """No .env and no secrets folder: two places are enough to look in."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def artifacts(self) -> Path:
        """The artifact folder, the default filled in."""
        return self.artifacts_dir or self.data_dir / "artifacts"

    @property
    def local_folder(self) -> Path:
        """The local provider's folder, the default filled in."""
        return self.local.folder or self.data_dir / "local"

    @property
    def simulated_folder(self) -> Path:
        """The simulated provider's folder, the default filled in."""
        return self.providers.simulated.folder or self.data_dir / "simulated"

    @property
    def stamp(self) -> str:
        """Which settings file these were read from, and its digest; empty when there was none."""
        return self._stamp

    @property
    def database(self) -> str:
        """The database's URL, the default filled in."""
        return self.database_url or f"sqlite:///{self.data_dir / 'placet.db'}"


def load_settings(config: Path | None = None, overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process; ``overrides`` are named by field and win over everything.

    Raises:
        SettingsError: a file cannot be read, or something in it or in the environment is wrong.
    """
    path = config or places.config_path(os.environ)
    if (config is not None or os.environ.get("PLACET_CONFIG")) and not path.is_file():
        raise SettingsError(f"{path}: {'this is not a file' if path.exists() else 'there is no such file'}")
    _refuse_unknown_variables(os.environ)

    class Located(Settings):
        model_config = SettingsConfigDict(toml_file=path)

    try:
        settings = Located(**dict(overrides or {}))  # type: ignore[arg-type]  # fields by name, checked by pydantic
        whole = settings.model_copy(update={"data_dir": settings.data_dir.expanduser().absolute()})
    except ValidationError as error:
        raise SettingsError("\n".join(_line(detail["loc"], detail["msg"]) for detail in error.errors())) from error
    except (ValueError, OSError, RuntimeError) as error:  # too many digits, too deep, or a home of nobody too
        raise SettingsError(f"{path}: {error}") from error
    whole._stamp = places.stamp(path)
    return whole


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    """A misspelt variable that is silently ignored is a setting that its owner believes in."""
    known = {f"PLACET_{name.upper()}" for name in Settings.model_fields}
    for name in sorted(environment):
        if not name.startswith("PLACET_") or name in OTHER_VARIABLES:
            continue
        top = name.partition("__")[0]
        if top not in known:
            raise SettingsError(f"{name}: there is no such setting; see the reference of settings")


def _line(location: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in location) or "settings"
    return f"{where}: {message.removeprefix('Value error, ')}"
