"""Models of the Hugging Face hub, and its cache on this machine.

A name may end in @REVISION, a commit, a branch or a tag: ``someone/tiny@main``. No name on the hub
holds an @ itself.
"""

import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import constants, snapshot_download

from ..checks import shown
from . import shipped
from .weights import reason

_FILES = {
    "allow_patterns": ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"],
    # the same weights again, in forms that are not read here (Mistral, Llama)
    "ignore_patterns": ["consolidated*", "original/*", "onnx/*"],
}


class HubName(NamedTuple):
    """A model on the hub, and its revision; None for the newest of its main branch.

    >>> HubName.of("someone/tiny@v1.0"), HubName.of("someone/tiny").revision
    (HubName(model='someone/tiny', revision='v1.0'), None)
    """

    model: str
    revision: str | None

    @classmethod
    def of(cls, name: str) -> "HubName":
        model, at, revision = name.partition("@")
        return cls(model, revision if at else None)


def from_hub(name: str) -> Path:
    """The folder of a hub model: from the hub's cache, else downloaded (safetensors only)."""
    cached_only = not hub_in_reach()
    try:
        return _snapshot(name, cached_only)
    except Exception as error:  # of the network, the hub's answers, the cache, the disk
        why = "the hub cannot be reached" if cached_only else reason(error)
        raise ValueError(
            f"model {shown(name, 200)}: no pocket policy ({', '.join(shipped.names()) or 'none'}), "
            "no folder with a model, not in the model hub's cache and not to be had from the hub; "
            f"check the name, or connect once so that it is cached ({why})"
        ) from error


def in_cache(name: str) -> Path | None:
    """The folder in the hub's cache that :func:`from_hub` used last; None where there is none."""
    try:
        return _snapshot(name, cached_only=True)
    except Exception:  # no name of the hub's, or no cache
        return None


def _snapshot(name: str, cached_only: bool) -> Path:
    model, revision = HubName.of(name)
    if revision == "":
        raise ValueError("after @ there is no revision")
    return Path(snapshot_download(model, revision=revision, **_FILES, local_files_only=cached_only))


def hub_in_reach() -> bool:
    """Whether the model hub's name resolves, or a proxy asks for it. Offline, the hub client would
    try for a minute.
    """
    if constants.HF_HUB_OFFLINE:
        return False
    place = urlsplit(constants.ENDPOINT)
    if getproxies().get(place.scheme) and not proxy_bypass(place.hostname):
        return True  # where the machine itself may resolve no name
    try:
        socket.getaddrinfo(place.hostname, 443)
        return True
    except OSError:
        return False
